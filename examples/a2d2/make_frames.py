"""Make street scenes in A2D2's layout: images, labels in its 55 colors, and camera files with times.

    python examples/a2d2/make_frames.py build/a2d2 --frames 240

They look nothing like a street, but a small network learns them in minutes: sky, buildings, trees, a street
with lines and a sidewalk, and cars, pedestrians, bicycles and road blocks on it. A scene has its own light
and its own objects, so the frames of a scene resemble each other, as in recordings. Needs NumPy and Pillow.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

CAMERAS = ("cam_front_center", "cam_front_left", "cam_side_right")
# The list of classes as the data set has it: color of a label → name.
CLASS_LIST = {
    "#ff0000": "Car 1",
    "#c80000": "Car 2",
    "#960000": "Car 3",
    "#800000": "Car 4",
    "#b65906": "Bicycle 1",
    "#963204": "Bicycle 2",
    "#5a1e01": "Bicycle 3",
    "#5a1e1e": "Bicycle 4",
    "#cc99ff": "Pedestrian 1",
    "#bd499b": "Pedestrian 2",
    "#ef59bf": "Pedestrian 3",
    "#ff8000": "Truck 1",
    "#c88000": "Truck 2",
    "#968000": "Truck 3",
    "#00ff00": "Small vehicles 1",
    "#00c800": "Small vehicles 2",
    "#009600": "Small vehicles 3",
    "#0080ff": "Traffic signal 1",
    "#1e1c9e": "Traffic signal 2",
    "#3c1c64": "Traffic signal 3",
    "#00ffff": "Traffic sign 1",
    "#1edcdc": "Traffic sign 2",
    "#3c9dc7": "Traffic sign 3",
    "#ffff00": "Utility vehicle 1",
    "#ffffc8": "Utility vehicle 2",
    "#e96400": "Sidebars",
    "#6e6e00": "Speed bumper",
    "#808000": "Curbstone",
    "#ffc125": "Solid line",
    "#400040": "Irrelevant signs",
    "#b97a57": "Road blocks",
    "#000064": "Tractor",
    "#8b636c": "Non-drivable street",
    "#d23273": "Zebra crossing",
    "#ff0080": "Obstacles / trash",
    "#fff68f": "Poles",
    "#960096": "RD restricted area",
    "#ccff99": "Animals",
    "#eea2ad": "Grid structure",
    "#212cb1": "Signal corpus",
    "#b432b4": "Drivable cobblestone",
    "#ff46b9": "Electronic traffic",
    "#eee9bf": "Slow drive area",
    "#93fdc2": "Nature object",
    "#9696c8": "Parking area",
    "#b496c8": "Sidewalk",
    "#48d1cc": "Ego car",
    "#c87dd2": "Painted driv. instr.",
    "#9f79ee": "Traffic guide obj.",
    "#8000ff": "Dashed line",
    "#ff00ff": "RD normal street",
    "#87ceff": "Sky",
    "#f1e6ff": "Buildings",
    "#60458f": "Blurred area",
    "#352e52": "Rain dirt",
}
SEEN = {  # the color of a class in an image by day
    "Sky": (120, 170, 230),
    "Buildings": (150, 120, 100),
    "Nature object": (50, 110, 50),
    "RD normal street": (70, 70, 75),
    "Sidewalk": (140, 135, 130),
    "Solid line": (230, 230, 225),
    "Car": (190, 40, 40),
    "Pedestrian": (220, 170, 60),
    "Bicycle": (40, 60, 160),
    "Road blocks": (240, 120, 30),
}
FIRST_US = 1_533_652_228_000_000  # of the first scene's first frame
FRAME_US = 100_000  # between two frames of a scene


def path_of(directory: Path, scene: str, camera: str, number: int, kind: str, suffix: str = "png") -> Path:
    """Where the `camera` image or the `label` of a frame lies."""
    short = camera.removeprefix("cam_").replace("_", "")
    name = f"{scene.replace('_', '')}_{kind}_{short}_{number:09}.{suffix}"
    return directory / scene / kind / camera / name


def write_frame(
    directory: Path, scene: str, camera: str, number: int, image: np.ndarray, label: np.ndarray
) -> None:
    """Write image and label (height × width × 3, uint8)."""
    for kind, pixels in (("camera", image), ("label", label)):
        path = path_of(directory, scene, camera, number, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def make(directory: Path, frames: int, scenes: int, height: int, width: int, seed: int) -> None:
    """Write so many frames, spread over scenes and cameras; the same ones for the same seed."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "class_list.json").write_text(json.dumps(CLASS_LIST, indent=1))
    colours = {name: tuple(bytes.fromhex(text[1:])) for text, name in CLASS_LIST.items()}
    for number in range(frames):
        at, camera = number % scenes, CAMERAS[number // scenes % len(CAMERAS)]
        scene = f"201808{7 + at // 24:02}_{10 + at % 14:02}{(at * 17) % 60:02}00"
        mood = np.random.default_rng([seed, at])
        light, night = mood.uniform(0.75, 1.15), mood.random() < 0.2
        chance = np.random.default_rng([seed, at, number])
        names = drawn(chance, mood, camera, height, width)
        image, label = np.zeros((2, height, width, 3), dtype=np.uint8)
        for name in np.unique(names):
            single = name.rstrip(" 1234")
            shown = np.array(SEEN[single]) * light * (0.35 if night else 1.0)
            image[names == name] = shown.clip(0, 255)
            label[names == name] = colours[name]
        noise = chance.normal(0, 14, image.shape)
        write_frame(directory, scene, camera, number, (image + noise).clip(0, 255).astype(np.uint8), label)
        taken = FIRST_US + at * 3_600_000_000 + number // scenes * FRAME_US
        about = {"cam_name": camera.removeprefix("cam_"), "cam_tstamp": taken}
        path_of(directory, scene, camera, number, "camera", "json").write_text(json.dumps(about))


def drawn(
    chance: np.random.Generator, mood: np.random.Generator, camera: str, height: int, width: int
) -> np.ndarray:
    """The class of each pixel, as the list of classes has it (height × width, text)."""
    names = np.full((height, width), "Sky", dtype="<U24")
    horizon = int(height * mood.uniform(0.35, 0.5)) + int(chance.integers(-2, 3))
    for _ in range(int(mood.integers(1, 4))):
        _box(names, chance, "Buildings", horizon, (0.3, 0.15), (0.2, 0.4))
    for _ in range(int(mood.integers(0, 4))):
        _box(names, chance, "Nature object", horizon, (0.2, 0.1), (0.1, 0.3))
    names[horizon:] = "RD normal street"
    edge = int(width * chance.uniform(0.75, 0.9))
    names[horizon:, edge:] = "Sidewalk"
    names[horizon:, edge - max(1, width // 80) : edge] = "Solid line"
    for number in range(int(mood.integers(1, 4))):
        _box(names, chance, f"Car {1 + number % 4}", horizon + height // 4, (0.18, 0.08), (0.1, 0.25))
    if mood.random() < 0.6:
        _box(names, chance, "Pedestrian 1", horizon + height // 5, (0.22, 0.1), (0.03, 0.06))
    if camera == "cam_front_center" and mood.random() < 0.4:
        _box(names, chance, "Bicycle 1", horizon + height // 4, (0.15, 0.06), (0.05, 0.1))
    if mood.random() < 0.15:
        _box(names, chance, "Road blocks", horizon + height // 3, (0.08, 0.04), (0.05, 0.12))
    return names


def _box(
    names: np.ndarray,
    chance: np.random.Generator,
    name: str,
    bottom: int,
    tall: tuple[float, float],
    wide: tuple[float, float],
) -> None:
    """Draw an upright box that stands on a row."""
    height, width = names.shape
    high = max(2, int(height * chance.uniform(tall[1], tall[0])))
    broad = max(2, int(width * chance.uniform(*wide)))
    left = int(chance.integers(0, max(1, width - broad)))
    names[max(0, bottom - high) : bottom, left : left + broad] = name


def main() -> None:
    """Parse the command line and write the frames."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--size", type=int, nargs=2, default=[96, 160], help="height and width, pixels")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.frames < 1 or not 1 <= options.scenes <= 300 or min(options.size) < 32:
        parser.error("--frames and --scenes must be at least 1, and --size at least 32 32")
    make(options.directory, options.frames, options.scenes, *options.size, options.seed)
    print(f"{options.frames} frames in {options.directory}")


if __name__ == "__main__":
    main()
