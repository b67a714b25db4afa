"""`assay gate`."""

from __future__ import annotations

from assay.cli.question_command import command_of
from assay.questions.gate import Gate

command = command_of(Gate)
