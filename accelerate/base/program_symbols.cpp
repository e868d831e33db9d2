#include "accelerate/base/program_symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "accelerate/base/descriptor.h"

namespace accelerate {
namespace {

using Header = ElfW(Ehdr);
using Section = ElfW(Shdr);
using Symbol = ElfW(Sym);

// Long names of templates say nothing more.
constexpr std::size_t kLongestName = 160;

std::string demangled(const char* name) {
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  std::string result = status == 0 ? text.get() : name;
  if (result.size() > kLongestName) result = result.substr(0, kLongestName) + "…";
  return result;
}

}  // namespace

namespace detail {

// A program or library, mapped to be read.
class MappedProgram {
 public:
  explicit MappedProgram(const std::string& path) {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found{};
    if (!fd.valid() || ::fstat(fd.get(), &found) != 0 || found.st_size <= 0) return;
    size_ = static_cast<std::size_t>(found.st_size);
    void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (at != MAP_FAILED) bytes_ = static_cast<const char*>(at);
  }
  ~MappedProgram() {
    if (bytes_ != nullptr) ::munmap(const_cast<char*>(bytes_), size_);
  }
  MappedProgram(const MappedProgram&) = delete;
  MappedProgram& operator=(const MappedProgram&) = delete;

  // Returns `count` objects at `offset`; null if the file does not have them.
  template <typename T>
  [[nodiscard]] const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (bytes_ == nullptr || offset > size_ || offset % alignof(T) != 0) return nullptr;
    if (count > (size_ - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(bytes_ + offset);
  }

 private:
  const char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

// The functions of one file, by address.
struct ProgramSymbols::File {
  struct Function {
    std::uint64_t begin, end;
    const char* name;
  };

  explicit File(const std::string& path) : file(path) {
    const Header* header = file.at<Header>(0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
    const Section* sections = file.at<Section>(header->e_shoff, header->e_shnum);
    if (sections == nullptr) return;
    for (int i = 0; i < header->e_shnum; ++i) {
      const Section& one = sections[i];
      if (one.sh_type == SHT_SYMTAB && one.sh_link < header->e_shnum) {
        add(one, sections[one.sh_link]);
      }
    }
    std::ranges::sort(functions, {}, &Function::begin);
  }

  void add(const Section& table, const Section& names) {
    const auto count = table.sh_size / sizeof(Symbol);
    const Symbol* symbols = file.at<Symbol>(table.sh_offset, count);
    const char* texts = file.at<char>(names.sh_offset, names.sh_size);
    if (symbols == nullptr || texts == nullptr || names.sh_size == 0) return;
    if (texts[names.sh_size - 1] != '\0') return;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Symbol& one = symbols[i];
      if ((one.st_info & 0xf) != STT_FUNC || one.st_value == 0 || one.st_name >= names.sh_size) {
        continue;
      }
      const std::uint64_t size = std::max<std::uint64_t>(one.st_size, 1);
      functions.push_back({one.st_value, one.st_value + size, texts + one.st_name});
    }
  }

  [[nodiscard]] const char* find(std::uint64_t address) const {
    auto next = std::ranges::upper_bound(functions, address, {}, &Function::begin);
    if (next == functions.begin()) return nullptr;
    --next;
    return address < next->end ? next->name : nullptr;
  }

  detail::MappedProgram file;
  std::vector<Function> functions;
};

ProgramSymbols::ProgramSymbols() = default;
ProgramSymbols::~ProgramSymbols() = default;

ProgramSymbols::File& ProgramSymbols::file_at(const std::string& path) {
  auto& file = files_[path];
  if (!file) file = std::make_unique<File>(path);
  return *file;
}

std::string ProgramSymbols::name_of(const void* address) {
  Dl_info found{};
  link_map* map = nullptr;
  if (::dladdr1(address, &found, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      found.dli_fname == nullptr || map == nullptr) {
    std::ostringstream text;
    text << address;
    return text.str();
  }
  // The loader gives the program itself no name.
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  const std::string path = is_program ? "/proc/self/exe" : map->l_name;
  std::error_code ignored;
  const std::string shown =
      (is_program ? std::filesystem::read_symlink(path, ignored) : std::filesystem::path(path))
          .filename()
          .string();
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(address) - map->l_addr;
  const char* name = found.dli_sname;
  if (const char* better = file_at(path).find(offset)) name = better;
  if (name != nullptr) return demangled(name) + " (" + shown + ")";
  std::ostringstream text;
  text << shown << "+0x" << std::hex << offset;
  return text.str();
}

}  // namespace accelerate
