"""What each system is held with: every decision with its value as decided and as printed."""

GPT = ["gpt5nano", "gpt56luna", "gpt6luna"]
HYBRID: tuple[tuple[int, str, object, object], ...] = (
    (1, "analyst.imputation", "appendix", "strict"),
    (1, "analyst.renormalise", False, True),
    (1, "analyst.donor_confidence", 0.7, 0.7),
    (1, "analyst.donor_score", 2, 2),
    (1, "analyst.donor_weights", [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    (1, "analyst.imputed_cap", 2, 2),
    (1, "analyst.imputed_rounding", "half_down", "half_down"),
    (2, "samples", 20, 20),
    (3, "orchestrator.coverage", "guard", "stop"),
    (4, "orchestrator.coverage_share", 0.7, 0.7),
    (4, "orchestrator.coverage_base", "all", "all"),
    (4, "orchestrator.coverage_rounding", "ceil", "int"),
    (5, "orchestrator.confidence_threshold", 0.6, 0.6),
    (5, "orchestrator.confident_base", "assessable", "all"),
    (5, "orchestrator.confident_turn", 8, 8),
    (5, "orchestrator.revisit", "above", "at_least"),
    (6, "orchestrator.stable_turn", 10, 10),
    (6, "orchestrator.stable_span", 3, 3),
    (6, "orchestrator.stable_below", 2, 2),
    (8, "orchestrator.severity_weight", 0.5, 0.5),
    (8, "orchestrator.focus_size", 4, 4),
    (10, "analyst.kind", "consensus", "consensus"),
    (10, "analyst.selected", 3, 3),
    (11, "analyst.agreement", "all", "all"),
    (13, "orchestrator.first_focus", [1, 4], [1, 4]),
    (14, "tree.turns_max", 3, None),
    (15, "tree.bm25", "plus", "okapi"),
    (16, "scorer_when", "turn", "turn"),
    (17, "orchestrator.max_messages", 18, 18),
    (17, "orchestrator.closing", False, True),
    (18, "scorer.repairs", 1, 1),
    (20, "interviewer.guidance", "last", "first"),
    (21, "guard.kind", "screening", "screening"),
    (22, "analyst.min_share", 0.75, 0.75),
    (22, "analyst.min_interviews", 3, 3),
    (0, "interviewer.models", ["gemma"], ["gemma"]),
    (0, "scorer.models", GPT, ["gpt5nano"]),
    (0, "scorer.order", "evidence_first", "score_first"),
    (0, "orchestrator.well_assessed_max", 6, 6),
    (0, "orchestrator.low_budget", 4, 4),
    (0, "orchestrator.signals", "lexical", "lexical"),
    (0, "privacy", "remote", "remote"),
)
"""Number of the decision (0: not numbered), key, value as decided, value as printed."""
BASELINE = (
    *(row for row in HYBRID if row[1].startswith("orchestrator.")),
    (1, "analyst.imputation", "off", "off"),
    (1, "analyst.renormalise", False, True),
    (2, "samples", 10, 30),
    (12, "analyst.kind", "median", "median"),
    (14, "tree.turns_max", 0, 0),
    (16, "scorer_when", "turn", "turn"),
    (20, "interviewer.guidance", "last", "first"),
    (21, "guard.kind", "screening", "screening"),
    (0, "interviewer.models", GPT, ["gpt5nano"]),
    (0, "scorer.models", GPT, ["gpt5nano"]),
    (0, "scorer.order", "evidence_first", "score_first"),
    (0, "privacy", "remote", "remote"),
)
MONOLITHIC = (
    (1, "analyst.imputation", "off", "off"),
    (1, "analyst.renormalise", False, True),
    (2, "samples", 10, 10),
    (12, "analyst.kind", "median", "median"),
    (14, "tree.turns_max", 0, 0),
    (16, "scorer_when", "end", "end"),
    (17, "orchestrator.kind", "budget", "budget"),
    (17, "orchestrator.max_messages", 18, 18),
    (17, "orchestrator.closing", False, True),
    (21, "guard.kind", "screening", "screening"),
    (0, "interviewer.kind", "monolith", "monolith"),
    (0, "interviewer.done_from", 6, 6),
    (0, "interviewer.models", GPT, ["gpt5nano"]),
    (0, "scorer.models", GPT, ["gpt5nano"]),
    (0, "scorer.order", "evidence_first", "score_first"),
    (0, "privacy", "remote", "remote"),
)
DECISIONS = {"hybrid": HYBRID, "baseline": BASELINE, "monolithic": MONOLITHIC}
WITHOUT_A_VALUE = {7, 9, 19, 23}
"""Decisions that are rules of the code, or of another command."""
LOCAL = {"scorer.models": ["gemma"], "privacy": "local"}
"""What `local` has otherwise than the hybrid."""


def promised(experiment: str) -> dict[str, object]:
    """Return the values that an experiment's decisions give it."""
    if experiment == "local":
        return {key: decided for _, key, decided, _ in HYBRID} | LOCAL
    name, printed, _ = experiment.partition("_as_printed")
    return {
        key: as_printed if printed else decided for _, key, decided, as_printed in DECISIONS[name]
    }


def flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {
        key: found
        for name, part in value.items()
        for key, found in flat(part, f"{prefix}.{name}" if prefix else str(name)).items()
    }
