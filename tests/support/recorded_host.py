"""A host as its files show it: two sockets, each with a GPU and an adapter, all as they should be."""

from __future__ import annotations

import os
from pathlib import Path

# Below each socket: host bridge, root port, the switch's upper port, its two lower ones
GPU0, NIC0 = "0000:03:00.0", "0000:04:00.0"
GPU1, NIC1 = "0000:83:00.0", "0000:84:00.0"
SWITCHES = {
    GPU0: ("pci0000:00", "0000:00:01.0", "0000:01:00.0"),
    GPU1: ("pci0000:80", "0000:80:01.0", "0000:81:00.0"),
}
DRIVER = "580.95.05"
BANNER = "NVRM version: NVIDIA UNIX {}x86_64  {}  Release Build  (dvs-builder@U22-I3-B03-4-3)\n"
SPEC = "kind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n  - hostPath: /usr/lib64/libcuda.so.{}\n"


class Host:
    """The tree below `root`, and what its programs answer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, str] = {
            "modinfo -F version nvidia": f"{DRIVER}\n",
            "nvidia-ctk --version": "NVIDIA Container Toolkit CLI version 1.18.0\ncommit: abc\n",
            "sminfo": "sminfo: sm lid 1 sm guid 0x98039b0300dccab1, activity count 4711 state 3\n",
            "ibhosts": "".join(f"Ca\t: 0x248a0703001f0426 ports 1 {name}\n" for name in ADAPTERS),
            "systemd-detect-virt --vm": "none\n",
        }
        self._bus()
        self._fabric()
        self._driver()
        self._settings()

    def said(self, *argv: str, fine: tuple[int, ...] = (0,)) -> str | None:
        """What one of its programs prints; None where it has none of that name."""
        return self.answers.get(" ".join(argv))

    def write(self, **files: str) -> None:
        """Files by their absolute names."""
        for name, text in files.items():
            path = self.root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def remove(self, name: str) -> None:
        """A file, or an empty directory."""
        path = self.root / name.lstrip("/")
        path.rmdir() if path.is_dir() else path.unlink()

    def device(self, address: str, **files: str) -> None:
        """Attributes of a device on the PCI bus."""
        place = self.root / "sys/bus/pci/devices" / address
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)

    def acs(self, bridge: str, control: int) -> None:
        """A bridge's configuration, whose second extended capability is ACS with these bits on."""
        config = bytearray(4096)
        config[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
        config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        config[0x14E:0x150] = control.to_bytes(2, "little")
        (self.root / "sys/bus/pci/devices" / bridge / "config").write_bytes(config)

    def _bus(self) -> None:
        for gpu, nic, node in ((GPU0, NIC0, 0), (GPU1, NIC1, 1)):
            way = SWITCHES[gpu]
            lower = way[2].replace(":01:", ":02:").replace(":81:", ":82:")
            for port, address, kind, vendor in (
                (lower, gpu, "0x030200", "0x10de"),
                (lower[:-3] + "1.0", nic, "0x020700", "0x15b3"),
            ):
                self._place((*way, port, address))
                self.device(
                    address, **{"class": f"{kind}\n", "vendor": f"{vendor}\n", "numa_node": f"{node}\n"}
                )
                for each in (address, port):
                    self.device(
                        each, current_link_speed="32.0 GT/s PCIe\n", max_link_speed="32.0 GT/s PCIe\n"
                    )
                    self.device(each, current_link_width="16\n", max_link_width="16\n")
                self.device(address, **{"iommu_group/type": "identity\n"})
            for bridge in (*way[1:], lower, lower[:-3] + "1.0"):
                self.acs(bridge, 0)
            self.write(**{f"/sys/kernel/iommu_groups/{node}/type": "identity\n"})
        self.write(
            **{
                f"/sys/devices/system/node/node{node}/cpulist": f"{cpus}\n"
                for node, cpus in ((0, "0-1023"), (1, "0-1023"))
            }
        )

    def _place(self, way: tuple[str, ...]) -> None:
        place = self.root / "sys/devices" / "/".join(way)
        place.mkdir(parents=True, exist_ok=True)
        bus = self.root / "sys/bus/pci/devices"
        bus.mkdir(parents=True, exist_ok=True)
        for depth in range(2, len(way) + 1):
            link = bus / way[depth - 1]
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(self.root / "sys/devices" / "/".join(way[:depth]), bus))

    def _fabric(self) -> None:
        for name, nic in (("mlx5_0", NIC0), ("mlx5_1", NIC1)):
            port = f"/sys/class/infiniband/{name}/ports/1"
            self.write(**{f"{port}/state": "4: ACTIVE\n", f"{port}/phys_state": "5: LinkUp\n"})
            self.write(**{f"{port}/rate": "400 Gb/sec (4X NDR)\n", f"{port}/link_layer": "InfiniBand\n"})
            self.write(**{f"{port}/sm_lid": "0x1\n", f"{port}/lid": "0x9\n"})
            target = (self.root / "sys/bus/pci/devices" / nic).resolve()
            link = self.root / f"sys/class/infiniband/{name}/device"
            link.symlink_to(os.path.relpath(target, link.parent))
            self.device(nic, **{f"infiniband/{name}": ""})
        self.write(**{f"/dev/infiniband/{name}": "" for name in ("uverbs0", "uverbs1", "rdma_cm")})

    def _driver(self) -> None:
        self.write(**{"/sys/module/nvidia/version": f"{DRIVER}\n", "/sys/module/nvidia_uvm/refcnt": "0"})
        self.write(**{"/proc/driver/nvidia/version": BANNER.format("Open Kernel Module for ", DRIVER)})
        self.write(**{"/lib/modules/6.8.0/modules.dep": "", f"/usr/lib64/libnvidia-ml.so.{DRIVER}": ""})
        self.write(**{f"/usr/lib64/libcuda.so.{DRIVER}": "", "/etc/cdi/nvidia.yaml": SPEC.format(DRIVER)})
        self.write(**{f"/dev/{name}": "" for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")})
        runtime = '# of NVIDIA\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia]\n'
        self.write(**{"/usr/bin/containerd": "", "/etc/containerd/config.toml": runtime})

    def _settings(self) -> None:
        self.write(**{"/sys/fs/selinux/enforce": "0"})
        self.write(**{"/proc/sys/vm/zone_reclaim_mode": "0\n", "/proc/sys/vm/swappiness": "10\n"})
        self.write(**{"/sys/kernel/mm/transparent_hugepage/defrag": "always defer [madvise] never\n"})
        self.write(
            **{"/sys/class/dmi/id/sys_vendor": "NVIDIA\n", "/sys/class/dmi/id/product_name": "DGXH100\n"}
        )
        self.write(**{"/proc/cpuinfo": "model name : x\nflags : fpu vme\n"})
        for size in (2048, 1048576):
            pool = f"/sys/kernel/mm/hugepages/hugepages-{size}kB"
            self.write(**{f"{pool}/nr_hugepages": "0\n", f"{pool}/free_hugepages": "0\n"})
        self.write(**{"/proc/812/comm": "slurmd\n", "/proc/812/limits": LIMITS.format("unlimited")})


ADAPTERS = ('"dgx02 HCA-3"', '"dgx02 HCA-4"', '"dgx01 HCA-3"')
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         {0:20} {0:20} bytes     \n"
)
