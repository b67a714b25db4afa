"""A small ratings.csv in MovieLens' layout, whose users prefer the films of their own taste."""

from __future__ import annotations

import random
from pathlib import Path


def make_ratings(directory: Path, users: int = 120, items: int = 60, tastes: int = 3, each: int = 14) -> Path:
    """Each user rates `each` films, all but one in eight of their own taste; the path of the file."""
    chance = random.Random(1)
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(users):
        own = [item for item in range(items) if item % tastes == user % tastes]
        others = [item for item in range(items) if item % tastes != user % tastes]
        films = [*chance.sample(own, each - each // 8), *chance.sample(others, each // 8)]
        # the last rating, which is kept for evaluation, is of the user's own taste
        chance.shuffle(films)
        films.sort(key=lambda film: film % tastes == user % tastes)
        for second, film in enumerate(films):
            lines.append(f"{user + 7},{film * 3 + 1},{chance.randint(1, 10) / 2},{1_000_000_000 + second}")
    directory.mkdir(parents=True, exist_ok=True)
    (path := directory / "ratings.csv").write_text("\n".join(lines) + "\n")
    return path
