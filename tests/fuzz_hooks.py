"""What schemathesis must be told: values of a format that is not in JSON Schema."""

from zoneinfo import available_timezones

import schemathesis
from hypothesis import strategies

schemathesis.openapi.format(
    "iana-time-zone", strategies.sampled_from(sorted(available_timezones()))
)
