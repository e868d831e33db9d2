#include "accelerate/parallel/offload/slice_stream.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "accelerate/base/aligned_bytes.h"
#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// In elements of a slice.
constexpr std::int64_t kPiece = std::int64_t{1} << 21;
// Pieces are read and written from multiples of this on: whole pages of any type.
constexpr std::int64_t kAlignment = DirectFile::kAlignment;
// Parts that are farther apart are not read together. The pages of two pieces never overlap.
constexpr std::int64_t kGap = 2 * kAlignment;
constexpr std::size_t kInMemory = 3;  // A piece is read, one computed with, one written.

struct Part {
  std::size_t row;
  std::int64_t begin, end;  // In elements of the slice.
};

struct Piece {
  std::size_t slice;
  std::vector<Part> parts;

  [[nodiscard]] std::int64_t begin() const { return parts.front().begin / kAlignment * kAlignment; }
  [[nodiscard]] std::int64_t end() const { return round_up(parts.back().end, kAlignment); }
};

// The part of a column that is in memory.
struct Buffer {
  const OffloadColumn* column = nullptr;
  bool is_updated = false;
  std::uint64_t offset = 0;  // In the file.
  std::size_t bytes = 0;
  AlignedBytes memory;
};

// Memory for a piece. The transfers are declared last: their destructors wait.
struct Place {
  std::vector<Buffer> buffers;
  at::Tensor mirrored;
  std::vector<Transfer> reads, writes;
};

void wait_for(std::vector<Transfer>& transfers) {
  for (auto& transfer : transfers) transfer.wait();
  transfers.clear();
}

class SliceStream {
 public:
  SliceStream(OffloadStore& store, const std::vector<StoredRow>& rows,
              const std::vector<SliceUse>& uses)
      : store_(store), rows_(rows), uses_(uses) {
    locate();
    cut();
  }

  void run(const std::function<void(const std::vector<RowPart>&)>& visit) {
    for (std::size_t i = 0; i + 1 < kInMemory && i < pieces_.size(); ++i) begin_read(i);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      wait_for(place_of(i).reads);
      visit(parts_of(i));
      begin_write(i);
      if (i + kInMemory - 1 < pieces_.size()) begin_read(i + kInMemory - 1);
    }
    for (auto& place : places_) wait_for(place.writes);
    for (const std::size_t slice : mirrored_) store_.mirror_of(slice)->is_fresh = true;
  }

 private:
  // Finds the position of each row, by the first of its tensors that lies in the store.
  void locate() {
    for (const auto& row : rows_) {
      std::optional<OffloadStore::Place> found;
      for (const auto& tensor : row.tensors) {
        if (!found) found = store_.place_of(tensor);
      }
      positions_.push_back(found ? found->position : OffloadColumn::Position{});
    }
  }

  void cut() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].tensors.front().numel() > 0) order.push_back(i);
    }
    std::ranges::sort(order, {}, [this](std::size_t i) {
      return std::tuple(positions_[i].slice, positions_[i].element);
    });
    for (const std::size_t i : order) cut_row(i);
  }

  void cut_row(std::size_t row) {
    const auto& [slice, first] = positions_[row];
    const std::int64_t end = first + rows_[row].tensors.front().numel();
    for (std::int64_t begin = first; begin < end;) {
      const std::int64_t next = std::min(end, (begin / kPiece + 1) * kPiece);
      if (pieces_.empty() || !continues(pieces_.back(), slice, begin))
        pieces_.push_back({slice, {}});
      pieces_.back().parts.push_back({row, begin, next});
      begin = next;
    }
  }

  static bool continues(const Piece& piece, std::size_t slice, std::int64_t begin) {
    const Part& last = piece.parts.back();
    return piece.slice == slice && last.begin / kPiece == begin / kPiece && begin - last.end < kGap;
  }

  Place& place_of(std::size_t piece) { return places_[piece % kInMemory]; }

  void begin_read(std::size_t i) {
    Place& place = place_of(i);
    wait_for(place.writes);
    choose_columns(pieces_[i], place.buffers);
    for (auto& buffer : place.buffers) {
      place.reads.push_back(store_.queue().read(buffer.column->file(), buffer.offset,
                                                {buffer.memory.data(), buffer.bytes}));
    }
  }

  // Makes `buffers` as many as the piece has columns, each large enough.
  void choose_columns(const Piece& piece, std::vector<Buffer>& buffers) const {
    std::vector<std::pair<const OffloadColumn*, bool>> columns;
    for (const auto& part : piece.parts) {
      const auto& tensors = rows_[part.row].tensors;
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        const auto place = store_.place_of(tensors[k]);
        if (!place) continue;
        auto known =
            std::ranges::find(columns, place->column, [](const auto& c) { return c.first; });
        if (known == columns.end()) known = columns.insert(known, {place->column, false});
        known->second = known->second || uses_[k] == SliceUse::update;
      }
    }
    buffers.resize(columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c) {
      Buffer& buffer = buffers[c];
      std::tie(buffer.column, buffer.is_updated) = columns[c];
      buffer.offset = buffer.column->offset(piece.slice, piece.begin());
      buffer.bytes =
          static_cast<std::size_t>(std::min(buffer.column->offset(piece.slice, piece.end()),
                                            buffer.column->end_of(piece.slice)) -
                                   buffer.offset);
      if (buffer.memory.size() < buffer.bytes) buffer.memory = AlignedBytes(buffer.bytes);
    }
  }

  std::vector<RowPart> parts_of(std::size_t i) {
    std::vector<RowPart> parts;
    for (const auto& part : pieces_[i].parts) {
      RowPart& shown = parts.emplace_back(RowPart{part.row, {}});
      for (const auto& tensor : rows_[part.row].tensors)
        shown.tensors.push_back(in_memory(tensor, part, place_of(i)));
    }
    return parts;
  }

  at::Tensor in_memory(const at::Tensor& tensor, const Part& part, Place& place) const {
    const std::int64_t numel = part.end - part.begin;
    const auto stored = store_.place_of(tensor);
    if (!stored) return tensor.narrow(0, part.begin - positions_[part.row].element, numel);
    Buffer& buffer = *std::ranges::find(place.buffers, stored->column, &Buffer::column);
    const std::uint64_t offset = stored->column->offset(positions_[part.row].slice, part.begin);
    return at::from_blob(buffer.memory.data() + (offset - buffer.offset), {numel},
                         tensor.options().requires_grad(false));
  }

  void begin_write(std::size_t i) {
    Place& place = place_of(i);
    for (auto& buffer : place.buffers) {
      if (!buffer.is_updated) continue;
      place.writes.push_back(store_.queue().write(buffer.column->file(), buffer.offset,
                                                  {buffer.memory.data(), buffer.bytes}));
    }
    bring_mirror_up_to_date(pieces_[i], place);
  }

  // Converts the new values of a slice that has a copy of another type.
  void bring_mirror_up_to_date(const Piece& piece, Place& place) {
    OffloadStore::Mirror* const mirror = store_.mirror_of(piece.slice);
    if (mirror == nullptr) return;
    const auto& [values, copy, is_fresh] = *mirror;
    const auto master = store_.place_of(values);
    const auto buffer =
        std::ranges::find(place.buffers, master ? master->column : nullptr, &Buffer::column);
    if (buffer == place.buffers.end() || !buffer->is_updated) return;
    const std::int64_t numel = std::min(piece.end(), values.numel()) - piece.begin();
    const at::Tensor fresh = at::from_blob(buffer->memory.data(), {numel}, values.options());
    const at::Tensor target = copy.narrow(0, piece.begin(), numel);
    mirrored_.insert(piece.slice);
    if (!store_.holds(copy)) return void(target.copy_(fresh));
    place.mirrored = fresh.to(copy.scalar_type());
    place.writes.push_back(store_.write(target, place.mirrored));
  }

  OffloadStore& store_;
  const std::vector<StoredRow>& rows_;
  const std::vector<SliceUse>& uses_;
  std::vector<OffloadColumn::Position> positions_;  // By row.
  std::vector<Piece> pieces_;
  std::set<std::size_t> mirrored_;  // Slices whose copies follow.
  std::array<Place, kInMemory> places_;
};

}  // namespace

void for_each_slice(OffloadStore& store, const std::vector<StoredRow>& rows,
                    const std::vector<SliceUse>& uses,
                    const std::function<void(const std::vector<RowPart>&)>& visit) {
  SliceStream(store, rows, uses).run(visit);
}

void update_in_memory(const std::vector<at::Tensor>& tensors,
                      const std::function<void(const std::vector<at::Tensor>&)>& update) {
  const auto is_in_a_file = [](const auto& tensor) {
    return OffloadStore::holding(tensor) != nullptr;
  };
  if (std::ranges::none_of(tensors, is_in_a_file)) return update(tensors);
  std::vector<at::Tensor> in_memory;
  std::map<std::shared_ptr<OffloadStore>, std::vector<StoredRow>> in_files;
  for (const auto& tensor : tensors) {
    if (const auto store = OffloadStore::holding(tensor)) {
      in_files[store].push_back({{tensor}});
    } else {
      in_memory.push_back(tensor);
    }
  }
  if (!in_memory.empty()) update(in_memory);
  for (const auto& [store, rows] : in_files) {
    for_each_slice(*store, rows, {SliceUse::update}, [&](const std::vector<RowPart>& parts) {
      std::vector<at::Tensor> here;
      for (const auto& part : parts) here.push_back(part.tensors.front());
      update(here);
    });
  }
}

void visit_in_memory(const std::vector<at::Tensor>& tensors,
                     const std::function<void(const at::Tensor&)>& visit) {
  struct Coming {
    at::Tensor tensor;
    Transfer read;  // Last: its destructor waits.
  };
  const auto begin = [&](std::size_t i) -> Coming {
    const auto store = OffloadStore::holding(tensors[i]);
    if (!store) return {tensors[i], {}};
    at::Tensor tensor = aligned_memory(tensors[i].nbytes()).view(tensors[i].scalar_type());
    Transfer read = store->read(tensors[i], tensor.data_ptr());
    return {std::move(tensor), std::move(read)};
  };
  std::optional<Coming> next;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Coming now = next ? std::move(*next) : begin(i);
    next.reset();
    if (i + 1 < tensors.size()) next = begin(i + 1);
    now.read.wait();
    visit(now.tensor);
  }
}

}  // namespace accelerate::detail
