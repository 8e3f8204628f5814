"""How a run was made, as the summaries tell it."""

from dataclasses import dataclass, fields

NO_FACTS = ("level", "notes", "unit")


@dataclass(frozen=True)
class RunInfo:
    """How an estimate came about; None where it does not apply.

    `level` is the level of the printed intervals, `unit` what `n_battles` counts: battles or observations.
    """

    method: str = ""
    rank: tuple[int, ...] | None = None
    n_battles: int | None = None
    n_folds: int | None = None
    ridge: float | tuple[float, ...] | None = None
    sampling: str | None = None
    se: str | None = None
    link: str | None = None
    level: float = 0.95
    notes: tuple[str, ...] = ()
    unit: str = "battles"

    def describe(self) -> list[str]:
        """Return one line per known fact, for the summary."""
        facts = [(item.name, getattr(self, item.name)) for item in fields(self) if item.name not in NO_FACTS]
        names = {"n_battles": self.unit, "n_folds": "folds"}
        lines = [f"  {names.get(name, name):<9} {_say(value)}" for name, value in facts if value not in (None, "")]
        return lines + [f"  note      {note}" for note in self.notes]


def _say(value: object) -> str:
    if isinstance(value, tuple):
        return " × ".join(_say(part) for part in value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
