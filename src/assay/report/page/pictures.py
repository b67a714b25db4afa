"""Pictures of frames inside a page."""

from __future__ import annotations

import base64
from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """One picture: JPEG, and what it shows, for who can't see it."""

    words: str
    jpeg: bytes

    @property
    def url(self) -> str:
        """The picture itself, as an address."""
        return f"data:image/jpeg;base64,{base64.b64encode(self.jpeg).decode()}"


@dataclass(frozen=True)
class FramePictures:
    """A frame: its label's path, what there is to say, and its pictures side by side."""

    label: str
    words: str
    pictures: tuple[Picture, ...]
