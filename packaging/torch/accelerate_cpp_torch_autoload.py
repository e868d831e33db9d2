"""torch calls start() at the end of `import torch`. Without ACCELERATE_CPP_TORCH it does nothing."""
import os


def start():
    if os.environ.get("ACCELERATE_CPP_TORCH", "0") not in ("", "0"):
        import accelerate_cpp_torch

        accelerate_cpp_torch.replace_gloo()
