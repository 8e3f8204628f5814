"""`python -m lrbtl` is the command line."""

from lrbtl.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
