// What a row does not say of a machine and every train row says, taken from train rows like it.
//
// A median for each feature that is missing would make up a machine of parts that do not go
// together, as near to the train rows as any, whatever is given: 8 cores with the caches and memory
// of 56. So a row is completed by whole train rows, those nearest in what it gives; how much the
// predictions of these differ is what is not known of it.
//
// Invariants
// DON-1 A row that lacks only what some train rows lack, too, is taken as it is.
// DON-2 What a row gives is never changed, and all that it lacks comes from one train row.
#pragma once

#include <vector>

#include "gpu/predict/encoder.hpp"

namespace troupe::gpu::predict {

/// Whether a row says nothing of a feature: no number that can be used, or no word.
bool lacks(const ModelT& m, const perf_row& row, size_t feature);

/// Train rows to complete others by, as the model has them: some thousands, evenly spaced.
std::vector<double> donors_of(const ModelT& m, const row_list& train);

/// By feature: whether every train row has it.
std::vector<bool> always_given(const ModelT& m);

/// A row that lacks a feature of `always`, completed by each of the train rows nearest to it in
/// what it gives, which are at least one. Of more that are as near there are some.
std::vector<perf_row> completions_of(const ModelT& m, const perf_row& row);

}  // namespace troupe::gpu::predict
