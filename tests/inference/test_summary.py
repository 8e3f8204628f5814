"""What summaries say about a run."""

from lrbtl.inference.estimate import Provenance


def test_only_known_facts_are_told():
    assert Provenance().describe() == []
    info = Provenance(
        method="mle", rank=(3, 2), n_battles=12_345, ridge=(0.5, 0.123456), notes=("two contexts are thin",)
    )
    assert info.describe() == [
        "  method    mle",
        "  rank      3 × 2",
        "  battles   12,345",
        "  ridge     0.5 × 0.1235",
        "  note      two contexts are thin",
    ]
