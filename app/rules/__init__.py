"""The keyless implementation of extractor and judge: deterministic rules over plain English.

It makes a fresh checkout work without a model. It prefers storing nothing to storing something
wrong; what it can't do is understand what isn't stated plainly.
"""

from app.rules.extractor import RulesExtractor
from app.rules.forget import ForgetRequest, forget_requests
from app.rules.judge import RulesJudge, subject_of
from app.rules.subjects import canonical, is_single_valued, same_subject

__all__ = [
    "ForgetRequest",
    "RulesExtractor",
    "RulesJudge",
    "canonical",
    "forget_requests",
    "is_single_valued",
    "same_subject",
    "subject_of",
]
