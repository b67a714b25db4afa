"""A network of `segmentation` with random weights, saved as a training saves it: it predicts something."""

from __future__ import annotations

from pathlib import Path

SIZE = (32, 64)


def checkpoint(path: Path, *, classes: int = 20, seed: int = 1, size: tuple[int, int] = SIZE) -> Path:
    """Write the checkpoint of an untrained network."""
    import segmentation_models_pytorch as models
    import torch

    torch.manual_seed(seed)
    network = models.Unet(encoder_name="resnet18", encoder_weights=None, classes=classes)
    options = {"architecture": "unet", "encoder": "resnet18", "image_size": str(list(size))}
    options |= {"reduced": str(classes == 20)}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"parameters": options, "step": 3, "model": network.state_dict()}, path)
    return path
