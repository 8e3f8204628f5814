"""Messages of the library as the command line says them."""

import pytest

from lrbtl.cli.options import command_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rank (2, 2, 2) has 3 modes but", "--rank 2,2,2 has 3 modes but"),
        ("rank (3, 3) predicts better than rank (2, 2)", "rank (3, 3) predicts better than rank (2, 2)"),
        ("use method='efficient'.", "use --method efficient."),
        ("n_folds=1 and n_threads=0; rng=7", "--folds 1 and --threads 0; --seed 7"),
        ("context=('math', 'crowd')", "--board math / crowd"),
        ("anchor=('x', 1000) is not valid", "--anchor x=1000 is not valid"),
        ("Give outcomes={'left': 1}; known", "Give --outcome WORD=NUMBER or WORD=drop; known"),
        ("so each has a board of its own in `islands`.", "so each has a board of its own."),
        ("name it: Battles.read(votes, winner=...).", "name it with --winner COLUMN."),
        (
            "name them: Battles.read(votes, model_a=..., winner=...).",
            "name them with --model-a COLUMN --winner COLUMN.",
        ),
        ("leave them out with battles.select(...).", "leave their rows out of the file."),
    ],
)
def test_arguments_become_options(text, words):
    assert command_words(text) == words
