"""Every setting of every command as frozen, strict models; conf/ holds the values."""

from src.settings.commands import (
    PERSONA_FORM,
    PERSONA_TEXT,
    PERSONAS,
    LimitSettings,
    RunSettings,
    ScoreSettings,
)
from src.settings.form import File, Settings
from src.settings.models import ModelSettings, RateSettings, RetrySettings, SamplingSettings
from src.settings.players import (
    AnalystSettings,
    ConsensusSettings,
    CoverageSettings,
    LexicalSettings,
    LexicalThresholds,
    MedianSettings,
    OfflineSettings,
    OfflineThresholds,
    ScriptedSettings,
    TreeSettings,
)

__all__ = [
    "PERSONAS",
    "PERSONA_FORM",
    "PERSONA_TEXT",
    "AnalystSettings",
    "ConsensusSettings",
    "CoverageSettings",
    "File",
    "LexicalSettings",
    "LexicalThresholds",
    "LimitSettings",
    "MedianSettings",
    "ModelSettings",
    "OfflineSettings",
    "OfflineThresholds",
    "RateSettings",
    "RetrySettings",
    "RunSettings",
    "SamplingSettings",
    "ScoreSettings",
    "ScriptedSettings",
    "Settings",
    "TreeSettings",
]
