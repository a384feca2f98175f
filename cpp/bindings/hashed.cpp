// The part of bomkl._core that learns from the texts and codes of tables.
#include "auto/hashed/hashed.hpp"
#include "bindings/auto_arrays.hpp"

#include <algorithm>
#include <string>

using namespace nanobind::literals;

namespace bomkl {
namespace {

using namespace automatic;

// The letters of a text in lower case, all white space being ' ', and the hash of the text as it is.
std::uint64_t read_text(PyObject* text, std::vector<std::uint32_t>& letters) {
    const int kind = PyUnicode_KIND(text);
    const void* data = PyUnicode_DATA(text);
    std::uint64_t hash = 0x54455854u;
    for (Py_ssize_t i = 0, n = PyUnicode_GET_LENGTH(text); i < n; ++i) {
        const Py_UCS4 letter = PyUnicode_READ(kind, data, i);
        hash = with_letter(hash, letter);
        letters.push_back(Py_UNICODE_ISSPACE(letter) ? ' ' : Py_UNICODE_TOLOWER(letter));
    }
    return std::max<std::uint64_t>(mixed(hash), 1);
}

// Cells of each column: (kind, texts or numbers).
std::vector<CellColumn> read_cells(const nb::list& columns, std::size_t n, std::vector<In<double, 1>>& keep) {
    std::vector<CellColumn> cells(columns.size());
    for (std::size_t c = 0; c < cells.size(); ++c) {
        const auto column = nb::cast<nb::tuple>(columns[c]);
        CellColumn& own = cells[c];
        const int kind = nb::cast<int>(column[0]);
        require(kind >= 0 && kind <= int(CellKind::code), "unknown kind of cells");
        own.kind = CellKind(kind);
        if (own.kind == CellKind::text) {
            const auto texts = nb::cast<nb::list>(column[1]);
            require(texts.size() == n, "a column has another number of cells");
            own.starts.push_back(0);
            for (nb::handle text : texts) {
                require(text.is_none() || PyUnicode_Check(text.ptr()), "a text is no text");
                own.hashes.push_back(text.is_none() ? 0 : read_text(text.ptr(), own.letters));
                own.starts.push_back(own.letters.size());
            }
        } else if (own.kind != CellKind::none) {
            keep.push_back(nb::cast<In<double, 1>>(column[1]));
            require(keep.back().size() == n, "a column has another number of cells");
            own.numbers = keep.back().data();
        }
    }
    return cells;
}

auto learn(HashedModel& model, nb::list columns, In<double, 2> y, In<double, 1> weight, Task task) {
    const std::size_t n = y.shape(0), outputs = std::size_t(model.outputs());
    require(columns.size() == model.columns() && y.shape(1) == outputs && weight.size() == n,
            "the rows do not fit the hashed models");
    std::vector<In<double, 1>> keep;
    const std::vector<CellColumn> cells = read_cells(columns, n, keep);
    std::vector<double> out(n * kModels * kWays * outputs);
    {
        const ReleaseForMany release(n, 2);
        model.score_and_learn(cells, n, y.data(), weight.data(), task, out.data());
    }
    return to_numpy(std::move(out), {n, std::size_t(kModels * kWays), outputs});
}

auto score(const HashedModel& model, nb::list columns, std::size_t n) {
    const std::size_t outputs = std::size_t(model.outputs());
    require(columns.size() == model.columns(), "the rows do not fit the hashed models");
    std::vector<In<double, 1>> keep;
    const std::vector<CellColumn> cells = read_cells(columns, n, keep);
    std::vector<double> out(n * kModels * kWays * outputs);
    {
        const ReleaseForMany release(n, 2);
        model.score(cells, n, out.data());
    }
    return to_numpy(std::move(out), {n, std::size_t(kModels * kWays), outputs});
}

std::size_t edits(nb::str name, nb::str other) {
    std::vector<std::uint32_t> own, its;
    read_text(name.ptr(), own), read_text(other.ptr(), its);
    require(Name::is(own) && Name::is(its), "a text is no name");
    return Edits(Name::of(own)).to(Name::of(its));
}

// What each feature of one row adds: (n, 5) model, slot, other slot, first and last letter; (n, kWays, outputs) what it adds.
nb::tuple contributions(const HashedModel& model, nb::list columns) {
    require(columns.size() == model.columns(), "the rows do not fit the hashed models");
    std::vector<In<double, 1>> keep;
    const std::vector<CellColumn> cells = read_cells(columns, 1, keep);
    std::vector<std::int32_t> features;
    std::vector<double> parts;
    const std::size_t outputs = std::size_t(model.outputs());
    model.each_feature(cells, 0, [&](std::size_t m, const HashedFeature& each, const float* entry) {
        for (std::int32_t number : {std::int32_t(m), each.slot, each.other, each.begin, each.end}) features.push_back(number);
        for (std::size_t i = 0; i < kWays * outputs; ++i) parts.push_back(double(entry[i]) * each.value);
    });
    const std::size_t n = features.size() / 5;
    return nb::make_tuple(to_numpy(std::move(features), {n, std::size_t(5)}),
                          to_numpy(std::move(parts), {n, std::size_t(kWays), outputs}));
}

// ---------------------------------------------------------------- state

constexpr std::size_t kSlotNumbers = 11;  // see slots_of

nb::tuple linear_arrays(const HashedLinear& model) {
    std::vector<std::int32_t> places;
    std::vector<float> entries;
    const std::size_t width = std::size_t(model.table.width());
    model.table.each([&](std::uint32_t place, const float* entry) {
        places.push_back(std::int32_t(place));
        entries.insert(entries.end(), entry, entry + width);
    });
    const std::size_t n = places.size();
    return nb::make_tuple(to_numpy(std::move(places)), to_numpy(std::move(entries), {n, width}),
                          to_numpy(model.dense, {model.dense.size() / width, width}),
                          to_numpy(std::vector<double>{model.nonzeros, model.rows, model.targets}), to_numpy(model.parts));
}

nb::list models_of(const HashedModel& model) {
    nb::list found;
    for (const HashedLinear& each : model.models()) found.append(linear_arrays(each));
    return found;
}

nb::tuple slots_of(const HashedModel& model) {
    std::vector<double> numbers, cuts, kept, name_counts;
    std::vector<std::uint64_t> codes, name_codes;
    std::vector<std::uint8_t> name_letters;
    for (const Slot& slot : model.slots()) {
        const std::vector<std::uint64_t> distinct = slot.distinct.codes();
        static const KnownNames::Held none;
        const KnownNames::Held& names = slot.names.held() ? *slot.names.held() : none;
        name_codes.insert(name_codes.end(), names.codes.begin(), names.codes.end());
        name_counts.insert(name_counts.end(), names.counts.begin(), names.counts.end());
        for (const Name& name : names.names) {
            name_letters.push_back(name.length);
            name_letters.insert(name_letters.end(), name.letters.begin(), name.letters.end());
        }
        const std::size_t n_kept = slot.kept ? slot.n_kept : 0;
        for (double each :
             {slot.rows, slot.texts, slot.letters, slot.count, slot.mean, slot.squares, double(slot.whole), double(slot.n_kept),
              double(slot.distinct.level()), double(distinct.size()), double(names.codes.size())})
            numbers.push_back(each);
        codes.insert(codes.end(), distinct.begin(), distinct.end());
        for (int i = 0; i < kBins - 1; ++i) cuts.push_back(i < slot.n_cuts ? slot.cuts[std::size_t(i)] : std::nan(""));
        if (n_kept) kept.insert(kept.end(), slot.kept->begin(), slot.kept->begin() + std::ptrdiff_t(n_kept));
    }
    const std::size_t n = model.slots().size(), n_names = name_codes.size();
    return nb::make_tuple(to_numpy(std::move(numbers), {n, kSlotNumbers}),
                          to_numpy(std::move(cuts), {n, std::size_t(kBins - 1)}), to_numpy(std::move(kept)),
                          to_numpy(std::move(codes)), to_numpy(std::move(name_codes)), to_numpy(std::move(name_counts)),
                          to_numpy(std::move(name_letters), {n_names, kName}));
}

void restore_linear(HashedLinear& model, std::uint32_t mask, const nb::handle& arrays) {
    const auto parts = nb::cast<nb::tuple>(arrays);
    const auto places = nb::cast<In<std::int32_t, 1>>(parts[0]);
    const auto entries = nb::cast<In<float, 2>>(parts[1]);
    const auto dense = nb::cast<In<float, 2>>(parts[2]);
    const auto rows = nb::cast<In<double, 1>>(parts[3]), by_slot = nb::cast<In<double, 1>>(parts[4]);
    const std::size_t width = std::size_t(model.table.width());
    require(entries.shape(0) == places.size() && entries.shape(1) == width && dense.size() == model.dense.size() &&
                dense.shape(1) == width && rows.size() == 3 && by_slot.size() == model.parts.size(),
            "the arrays of a hashed model do not fit together");
    for (std::size_t i = 0; i < places.size(); ++i) {
        const std::int32_t place = places.data()[i];
        require(place >= 0 && std::uint32_t(place) <= mask && (i == 0 || place > places.data()[i - 1]),
                "the places of a hashed model must grow");
        model.table.insert(std::uint32_t(place));
        std::copy_n(entries.data() + i * width, width, model.table.at(std::uint32_t(place)));
    }
    std::copy_n(dense.data(), dense.size(), model.dense.begin());
    std::copy_n(by_slot.data(), by_slot.size(), model.parts.begin());
    model.nonzeros = rows.data()[0], model.rows = rows.data()[1], model.targets = rows.data()[2];
}

void restore_slots(std::vector<Slot>& slots, In<double, 2> numbers, In<double, 2> cuts, In<double, 1> kept,
                   In<std::uint64_t, 1> codes) {
    const char* rule = "what the columns of a hashed model have shown does not fit together";
    require(numbers.shape(0) == slots.size() && numbers.shape(1) == kSlotNumbers && cuts.shape(0) == slots.size() &&
                cuts.shape(1) == std::size_t(kBins - 1),
            rule);
    const double* next_kept = kept.data();
    const std::uint64_t* next_code = codes.data();
    std::size_t kept_left = kept.size(), codes_left = codes.size();
    for (std::size_t s = 0; s < slots.size(); ++s) {
        const double* given = numbers.data() + s * kSlotNumbers;
        Slot& slot = slots[s];
        slot.rows = given[0], slot.texts = given[1], slot.letters = given[2];
        slot.count = given[3], slot.mean = given[4], slot.squares = given[5], slot.whole = given[6] != 0;
        require(given[7] >= 0 && given[7] <= double(kMostKept) && given[8] >= 0 && given[8] < 64 && given[9] >= 0 &&
                    given[9] <= double(Distinct::kMost),
                rule);
        slot.n_kept = std::size_t(given[7]);
        const std::size_t n_kept = slot.n_kept == kMostKept ? 0 : slot.n_kept, n_codes = std::size_t(given[9]);
        require(n_kept <= kept_left && n_codes <= codes_left, rule);
        if (n_kept) {
            slot.kept = std::make_shared<std::vector<double>>(std::max<std::size_t>(32, std::bit_ceil(n_kept)));
            std::copy_n(next_kept, n_kept, slot.kept->begin());
        }
        const std::vector<std::uint64_t> own(next_code, next_code + n_codes);
        const int level = int(given[8]);
        require(
            std::adjacent_find(own.begin(), own.end(), std::greater_equal<>()) == own.end() &&
                std::none_of(own.begin(), own.end(), [&](std::uint64_t c) { return c & ((std::uint64_t(1) << level) - 1); }),
            rule);
        if (n_codes || level) slot.distinct.restore(level, own);
        for (int i = 0; i < kBins - 1; ++i) {
            const double cut = cuts.data()[s * (kBins - 1) + std::size_t(i)];
            if (std::isnan(cut)) continue;
            require(slot.n_cuts == i && std::isfinite(cut) && (i == 0 || cut > slot.cuts[std::size_t(i) - 1]), rule);
            slot.cuts[std::size_t(slot.n_cuts++)] = cut;
        }
        next_kept += n_kept, kept_left -= n_kept, next_code += n_codes, codes_left -= n_codes;
    }
    require(kept_left == 0 && codes_left == 0, rule);
}

// Gives the slots the names that they know, as many as `numbers` says.
void restore_names(std::vector<Slot>& slots, In<double, 2> numbers, In<std::uint64_t, 1> codes, In<double, 1> counts,
                   In<std::uint8_t, 2> letters) {
    const char* rule = "the names that a hashed model knows do not fit together";
    require(counts.size() == codes.size() && letters.shape(0) == codes.size() && letters.shape(1) == kName, rule);
    std::size_t next = 0;
    for (std::size_t s = 0; s < slots.size(); ++s) {
        const double known = numbers.data()[s * kSlotNumbers + kSlotNumbers - 1];
        require(known >= 0 && known <= double(std::min(kMostNames, codes.size() - next)), rule);
        UniqueHashes unique;
        unique.clear();
        for (std::size_t i = 0; i < std::size_t(known); ++i, ++next) {
            const std::uint8_t* own = letters.data() + next * kName;
            const double count = counts.data()[next];
            Name name;
            name.length = own[0];
            std::copy_n(own + 1, kName - 1, name.letters.begin());
            require(name.length < kName && count >= 1 && count <= slots[s].rows && unique.add(codes.data()[next]) &&
                        std::all_of(name.letters.begin(), name.letters.end(), [](std::uint8_t letter) { return letter < 64; }),
                    rule);
            slots[s].names.add(codes.data()[next], count, name);
        }
    }
    require(next == codes.size(), rule);
}

// From what `models_of` and `slots_of` give.
std::shared_ptr<HashedModel> restored(std::size_t columns, int outputs, nb::list models, nb::tuple slots) {
    require(outputs > 0 && models.size() == kModels && slots.size() == 7, "the parts of hashed models do not fit together");
    auto model = std::make_shared<HashedModel>(columns, outputs);
    for (std::size_t m = 0; m < kModels; ++m) restore_linear(model->models()[m], model->mask(), models[m]);
    const auto numbers = nb::cast<In<double, 2>>(slots[0]);
    restore_slots(model->slots(), numbers, nb::cast<In<double, 2>>(slots[1]), nb::cast<In<double, 1>>(slots[2]),
                  nb::cast<In<std::uint64_t, 1>>(slots[3]));
    restore_names(model->slots(), numbers, nb::cast<In<std::uint64_t, 1>>(slots[4]), nb::cast<In<double, 1>>(slots[5]),
                  nb::cast<In<std::uint8_t, 2>>(slots[6]));
    return model;
}

}  // namespace

void bind_hashed(nb::module_& m) {
    m.def("edits", &edits, "name"_a, "other"_a);
    nb::class_<HashedModel>(m, "HashedModel")
        .def(nb::init<std::size_t, int>(), "columns"_a, "outputs"_a)
        .def_static("of", &restored, "columns"_a, "outputs"_a, "models"_a, "slots"_a)
        .def("fork", &forked<HashedModel>)
        .def_prop_ro("outputs", &HashedModel::outputs)
        .def_prop_ro("columns", &HashedModel::columns)
        .def_prop_ro("nbytes", &HashedModel::bytes)
        .def_prop_ro("models", &models_of)
        .def_prop_ro("slots", &slots_of)
        .def("score_and_learn", &learn, "columns"_a, "y"_a, "weight"_a, "task"_a)
        .def("scores", &score, "columns"_a, "rows"_a)
        .def("contributions", &contributions, "columns"_a)
        .def("add_class", &HashedModel::add_class)
        .def("rescale", &HashedModel::rescale, "shift"_a, "factor"_a);
}

}  // namespace bomkl
