"""What GNMT and Transformer promise, on a made language pair."""

from __future__ import annotations

from typing import ClassVar

from made_translations import make_translations, spoil_translations
from training_contract import TrainingContract


class TranslationContract(TrainingContract):
    """The training contract with the data and the rules of MLPerf's translations."""

    chance: ClassVar = {"dropout": 0.0}
    ruleset = "0.7.0"
    make_data = staticmethod(make_translations)
    spoil = staticmethod(spoil_translations)
