#include "accelerate/base/machine/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "accelerate/base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Returns the value of "key:   value" in one of the kernel's text tables.
std::string field(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trim(std::string_view(line).substr(0, colon)) == key) {
      return std::string(trim(std::string_view(line).substr(colon + 1)));
    }
  }
  return {};
}

// The driver has a folder for each GPU, named by its PCI address. Sorted, the folders are in CUDA's
// PCI_BUS_ID order.
std::vector<Gpu> gpus_of_driver(const fs::path& proc) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(proc / "driver/nvidia/gpus", ignored)) {
    folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<Gpu> gpus;
  for (const auto& folder : folders) {
    const std::string name = field(folder / "information", "Model");
    gpus.push_back({static_cast<int>(gpus.size()), name.empty() ? "NVIDIA GPU" : name,
                    field(folder / "information", "GPU UUID"), lower(folder.filename().string())});
  }
  return gpus;
}

// Containers may hide the driver's folder; the device files nvidia0, nvidia1, … remain.
std::vector<Gpu> gpus_of_device_files(const fs::path& dev) {
  std::vector<Gpu> gpus;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dev, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && parse_int(name.substr(6))) {
      gpus.push_back({static_cast<int>(gpus.size()), "NVIDIA GPU", ""});
    }
  }
  return gpus;
}

// Finds a GPU as CUDA does, by a position or the beginning of a UUID.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, const std::string& word) {
  if (const auto index = parse_int(word)) {
    const bool exists = *index >= 0 && *index < static_cast<std::int64_t>(gpus.size());
    return exists ? &gpus[static_cast<std::size_t>(*index)] : nullptr;
  }
  for (const auto& gpu : gpus) {
    if (!word.empty() && gpu.uuid.starts_with(word)) return &gpu;
  }
  return nullptr;
}

std::vector<Gpu> filtered(const std::vector<Gpu>& gpus, const std::string& visible) {
  std::vector<Gpu> kept;
  for (const auto& word : split(visible, ',')) {
    const Gpu* gpu = find_gpu(gpus, std::string(trim(word)));
    if (gpu == nullptr) break;
    kept.push_back(*gpu);
  }
  return kept;
}

}  // namespace

std::vector<Gpu> visible_gpus(const HardwareRoots& roots) {
  auto gpus = gpus_of_driver(roots.proc);
  if (gpus.empty()) gpus = gpus_of_device_files(roots.dev);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? gpus : filtered(gpus, visible);
}

int gpu_count() {
  return static_cast<int>(visible_gpus().size());
}

CpuList cpus_near(const Gpu& gpu, const HardwareRoots& roots) {
  if (gpu.bus.empty()) return {};
  return read_cpu_list(roots.sys / "bus/pci/devices" / gpu.bus / "local_cpulist");
}

}  // namespace accelerate
