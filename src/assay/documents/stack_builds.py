"""`assay stack build --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.build_stack import BuiltStack


def document(built: BuiltStack) -> dict[str, Any]:
    """The image, what it did as an arbitrary user, and where it is."""
    return {
        "schema": "assay.stack-build/1",
        "tag": built.tag,
        "id": built.image.id,
        "size_bytes": built.image.size_bytes,
        "built_s": built.built_s,
        "passed": built.test.passed,
        "modules": list(built.test.modules),
        "failed": [{"what": what, "why": why} for what, why in built.test.failed],
        "pushed": built.pushed,
    }
