"""Settings of the default method: each is checked, and changes what it says."""

from dataclasses import fields

import pytest

import lrbtl
from lrbtl.errors import MethodError
from lrbtl.hierarchical.config import HierarchicalConfig

NUMBERS = [item.name for item in fields(HierarchicalConfig)]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_not_negative(name):
    for wrong in (-1.0, "much", None):
        value = (wrong,) if name == "level_freedom" else wrong
        with pytest.raises(MethodError, match=name):
            HierarchicalConfig(**{name: value})


@pytest.mark.parametrize("freedom", [(2.0,), (float("inf"), 1.0), ()])
def test_laws_of_levels_have_a_variance(freedom):
    with pytest.raises(MethodError, match="level_freedom"):
        HierarchicalConfig(level_freedom=freedom)


def test_settings_are_kept():
    config = HierarchicalConfig(design_covariates=False, level_freedom=(4.0,))
    assert not config.design_covariates and config.level_freedom == (4.0,) and config != HierarchicalConfig()
    with pytest.raises(AttributeError):
        config.outliers = False  # type: ignore[misc]


def test_every_setting_is_documented():
    for name in NUMBERS:
        assert name in (HierarchicalConfig.__doc__ or "")


def test_the_defaults_are_the_same_as_none_at_all():
    battles = lrbtl.simulate_battles(lrbtl.simulate_scores((5, 2), 1, scale=1.0, rng=0), 60, rng=1)
    one = lrbtl.analyse(battles).scores()
    two = lrbtl.analyse(battles, config=HierarchicalConfig()).scores()
    assert (one == two).all()
