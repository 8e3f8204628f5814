"""`python -m lrbtl` is the command line."""

from lrbtl.cli.main import main

raise SystemExit(main())
