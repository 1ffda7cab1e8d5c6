// attention, streaming, from texels, panels of keys held:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ + bias)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a panel of KEYS keys is met by one row after the other, weighed by the row's largest
// score so far, and forgotten (the online softmax: Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One workgroup = one subgroup = ROWS queries of the heads that share a key/value head. One invocation = LOADS keys of
// a panel, and their values: it loads them once and holds them while all rows come by, so that a row costs little more
// than its products. Lanes are keys all the way: scores and weights need nobody else, and what the lanes' weighed
// values sum up to is gathered at the end of a panel, a word to a lane.
// Between panels a row's sums, its largest score and so on lie in `states`, the one array that a loop indexes.
// Panels start at multiples of KEYS, whoever the neighbours are, so that a row's answer does not depend on them. Panels
// outside the band and the lengths are not met, unless a learned key stands behind them.
// Chosen on llvmpipe, Mesa's CPU adapter (matmul_texels.wgsl says why texels), where heads are narrow, many rows share
// their keys and there is enough to do. What is held lies on the stack, where an operand costs no instruction of
// its own; it must fit the first-level cache, and `states` be small: LLVM takes long over arrays. No barrier, no
// workgroup memory. Assumes that widths and starts are multiples of four, and a subgroup of exactly LANES lanes.
// Arithmetic intensity: 8·LOADS·LANES·(HEAD + VALUE) operations for HEAD / LANES loads of four words in every lane;
// (HEAD + VALUE)·LOADS more serve all ROWS.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_DROPOUT: bool = true;
override OUT_TEXELS: bool = true;
const LANES: u32 = 8u;
const LANES_LOG2: u32 = 3u;
const ROWS: u32 = 64u;
// Groups of four in a head's queries and keys, and in its values.
const HEAD: u32 = 4u;
const VALUE: u32 = 4u;
// Keys of a panel: those of each lane, and all together.
const LOADS: u32 = 16u;
const KEYS: u32 = LOADS * LANES;
// Loads of a lane that bring a query, and stores of it that take a value away; words of a value that end up in a lane;
// groups of four words in all lanes'.
const QUERY_LOADS: u32 = 1u;
const VALUE_LOADS: u32 = 1u;
const GROUPS: u32 = 2u;
const PADDED: u32 = 4u;
// Keys of a lane whose products are under way together: as many as registers hold.
const PASS: u32 = 8u;
const PASSES: u32 = LOADS / PASS;
const HELD_KEYS: u32 = LOADS * HEAD;
const HELD_VALUES: u32 = LOADS * PADDED;
const ROW_VECTORS: u32 = ROWS / LANES;
const HALF: u32 = LANES / 2u;
// Panels that all rows see, and others.
const PARTS: u32 = 2u;
// A row's words in each lane: GROUPS sums, and one that has another meaning in each of the first four lanes.
const SLOTS: u32 = GROUPS + 1u;
const STATES: u32 = ROWS * SLOTS;
const LARGEST: u32 = 0u;
const SUM: u32 = 1u;
const SEEN: u32 = 2u;
const END: u32 = 3u;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    entry_start: u32,
    row_start: u32,
    entries: u32,
    rows: u32,
    all_rows: u32,
    columns: u32,
    num_keys: u32,
    num_heads: u32,
    group: u32,
    head_dim: u32,
    value_dim: u32,
    scale: f32,
    band_start: i32,
    band_end: i32,
    has_valid_lens: u32,
    has_attend_mask: u32,
    has_bias: u32,
    valid_lens_entry_stride: u32,
    valid_lens_row_stride: u32,
    mask_entry_stride: u32,
    mask_head_stride: u32,
    bias_entry_stride: u32,
    bias_head_stride: u32,
    query_first: u32,
    query_stride: u32,
    key_first: u32,
    key_stride: u32,
    value_first: u32,
    value_stride: u32,
    out_stride: u32,
    statistics: u32,
    query_base: u32,
    key_base: u32,
    value_base: u32,
    valid_lens_base: u32,
    mask_base: u32,
    bias_base: u32,
    pattern_base: u32,
    out_base: u32,
    value_parts: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var query_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var key_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(3) var value_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(4) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(5) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> pattern: array<u32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;
@group(0) @binding(9) var out_texels: texture_storage_2d<rgba32float, write>;

// --- One row: the same text in every shader of attention ---

// One query of one head: which keys it sees by position and length, where its mask and bias start.
struct Row {
    query: u32,
    head: u32,
    first_key: i32,
    end_key: i32,
    mask: u32,
    bias: u32,
}

// Row `index` of a group: the query heads that share a key/value head stand side by side.
fn row_of(entry: u32, kv_head: u32, index: u32) -> Row {
    let query_row = params.row_start + index / params.group;
    let head = kv_head * params.group + index % params.group;
    var end = min(i32(query_row) + params.band_end, i32(params.num_keys));
    if params.has_valid_lens != 0u {
        let place = entry * params.valid_lens_entry_stride + query_row * params.valid_lens_row_stride;
        // A length past all keys hides none; compared unsigned, it cannot turn negative.
        end = min(end, i32(min(valid_lens[params.valid_lens_base + place], params.num_keys)));
    }
    let mask_row = entry * params.mask_entry_stride + head * params.mask_head_stride + query_row * params.num_keys;
    let bias_row = entry * params.bias_entry_stride + head * params.bias_head_stride + query_row * params.num_keys;
    let first = max(i32(query_row) + params.band_start, 0);
    return Row(query_row, head, first, end, params.mask_base + mask_row, params.bias_base + bias_row);
}

fn power(score: f32, largest: f32) -> f32 {
    return exp2((score - largest) * LOG2_E);
}

// --- End of the row ---

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// --- Where heads start: the same text in all ---

// Where a row's query starts, and where key 0 of a head and value 0 of a group of four columns do.
fn query_line(entry: u32, row: Row) -> u32 {
    let line = (entry * params.all_rows + row.query) * params.query_stride + params.query_first;
    return line + row.head * params.head_dim;
}

fn first_key_of(entry: u32, kv_head: u32) -> u32 {
    return entry * params.columns * params.key_stride + params.key_first + kv_head * params.head_dim;
}

fn first_value_of(entry: u32, kv_head: u32, four: u32) -> u32 {
    // The last part may end behind the head; its sums are not stored.
    let inside = min(four * 4u, params.value_dim - 4u);
    return entry * params.columns * params.value_stride + params.value_first + kv_head * params.value_dim + inside;
}

// --- End of where heads start ---

// --- Dropped weights: the same text in every shader that drops some ---

// The high word of a · b, put together of products of 16-bit halves: WGSL multiplies modulo 2³².
fn high_product(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let middle = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (cross >> 16u) + (middle >> 16u);
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): four random words from a counter of four, under a key of two.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var words = counter;
    var bumped = key;
    for (var round = 0u; round < 10u; round++) { // unroll
        let first = vec2<u32>(high_product(0xd2511f53u, words.x), 0xd2511f53u * words.x);
        let second = vec2<u32>(high_product(0xcd9e8d57u, words.z), 0xcd9e8d57u * words.z);
        words = vec4<u32>(second.x ^ words.y ^ bumped.x, second.y, first.x ^ words.w ^ bumped.y, first.y);
        bumped += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// Which of four weights from key 4 · group on are kept: a bit for each, the first lowest.
fn kept_of(entry: u32, head: u32, query_row: u32, group: u32) -> u32 {
    let key = vec2<u32>(pattern[params.pattern_base + 2u], pattern[params.pattern_base + 3u]);
    let words = philox(vec4<u32>(group, query_row, head, entry), key);
    let kept = (words >> vec4<u32>(1u)) >= vec4<u32>(pattern[params.pattern_base]);
    return dot(select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), kept), vec4<u32>(1u));
}

// What a kept weight is multiplied with.
fn kept_scale() -> f32 {
    return bitcast<f32>(pattern[params.pattern_base + 1u]);
}

// --- End of dropped weights ---

// The largest of a subgroup's words, and their sum: every lane has it, in the same order of summation.
fn largest_of_lanes(word: f32) -> f32 {
    var largest = word;
    for (var b = 0u; b < LANES_LOG2; b++) { // unroll
        largest = max(largest, subgroupShuffleXor(largest, 1u << b));
    }
    return largest;
}

fn sum_of_lanes(word: f32) -> f32 {
    var sum = word;
    for (var b = 0u; b < LANES_LOG2; b++) { // unroll
        sum += subgroupShuffleXor(sum, 1u << b);
    }
    return sum;
}

// a + b, added up over pairs of lanes that differ in `bit`: that of a in the lane without it, of b in the lane with it.
fn added_up(a: f32, b: f32, lane: u32, bit: u32) -> f32 {
    let has_bit = (lane & bit) != 0u;
    return select(a, b, has_bit) + subgroupShuffle(select(b, a, has_bit), lane ^ bit);
}

// Lane j has word j summed over all lanes.
fn gathered(words: array<f32, LANES>, lane: u32) -> f32 {
    var sums = words;
    for (var b = 0u; b < LANES_LOG2; b++) { // unroll
        // Half as many each time; nobody asks for the rest.
        for (var i = 0u; i < HALF; i++) { // unroll
            sums[i] = added_up(sums[2u * i], sums[2u * i + 1u], lane, 1u << b);
        }
    }
    return sums[0];
}

fn store(word: u32, value: vec4<f32>) {
    if OUT_TEXELS {
        textureStore(out_texels, texel(word), value);
    } else {
        let place = params.out_base + word;
        out[place] = value.x;
        out[place + 1u] = value.y;
        out[place + 2u] = value.z;
        out[place + 3u] = value.w;
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let scale = params.scale;
    let head_dim = params.head_dim;
    let value_dim = params.value_dim;
    let query_stride = params.query_stride;
    let key_stride = params.key_stride;
    let value_stride = params.value_stride;
    let out_stride = params.out_stride;
    let num_keys = params.num_keys;
    let all_columns = params.columns;
    let all_rows = params.all_rows;
    let group = params.group;
    let band_start = params.band_start;
    let mask_head_stride = params.mask_head_stride;
    let bias_head_stride = params.bias_head_stride;
    let first_query = params.row_start;
    let group_rows = params.rows * group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let index = workgroup.y * params.grid_width + workgroup.x;
    let kv_heads = params.num_heads / group;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if index / blocks >= params.entries * kv_heads {
        return;
    }
    let entry = params.entry_start + index / blocks / kv_heads;
    let kv_head = index / blocks % kv_heads;
    let first_row = index % blocks * ROWS;
    let num_rows = min(ROWS, group_rows - first_row);
    // ends[g] of lane j: where the keys of row g · LANES + j end. Rows past the last repeat it.
    var ends: array<i32, ROW_VECTORS>;
    // Keys that any of the rows sees, and those that all of them see.
    var any_keys = vec2<i32>(i32(num_keys), 0);
    var all_keys = vec2<i32>(0, i32(num_keys));
    for (var g = 0u; g < ROW_VECTORS; g++) { // unroll
        let row = row_of(entry, kv_head, min(first_row + g * LANES + lane, group_rows - 1u));
        ends[g] = max(row.end_key, 0);
        any_keys = vec2<i32>(min(any_keys.x, row.first_key), max(any_keys.y, row.end_key));
        all_keys = vec2<i32>(max(all_keys.x, row.first_key), min(all_keys.y, row.end_key));
    }
    let first_key = u32(subgroupMin(any_keys.x));
    // The learned key stands behind all others.
    let end_key = select(u32(subgroupMax(any_keys.y)), all_columns, all_columns > num_keys);
    let whole = vec2<i32>(subgroupMax(all_keys.x), subgroupMin(all_keys.y));
    // states[r · SLOTS + g] of lane j: word g · LANES + j of Σ weight · value of row r; and, in the last slot, its
    // largest score, its sum of weights, whether it has seen a key, and where its keys end.
    var states: array<f32, STATES>;
    for (var j = 0u; j < LANES; j++) {
        for (var g = 0u; g < ROW_VECTORS; g++) { // unroll
            let end = bitcast<f32>(subgroupShuffle(ends[g], j));
            states[(g * LANES + j) * SLOTS + GROUPS] = select(select(0.0, LOWEST, lane == LARGEST), end, lane == END);
        }
    }
    let first_query_line = query_line(entry, Row(0u, kv_head * group, 0, 0, 0u, 0u));
    let first_key_line = first_key_of(entry, kv_head);
    let first_value_line = first_value_of(entry, kv_head, 0u);
    let first_mask = params.mask_base + entry * params.mask_entry_stride + kv_head * group * mask_head_stride;
    let first_bias = params.bias_base + entry * params.bias_entry_stride + kv_head * group * bias_head_stride;
    for (var key = first_key / KEYS * KEYS; key < end_key; key += KEYS) {
        // keys[v · HEAD + d], values[v · PADDED + e]: four words of key v · LANES + lane of the panel, of its value.
        // Keys past the last one repeat it, and are hidden.
        var keys: array<vec4<f32>, HELD_KEYS>;
        var values: array<vec4<f32>, HELD_VALUES>;
        for (var v = 0u; v < LOADS; v++) { // unroll
            let place = min(key + v * LANES + lane, all_columns - 1u);
            for (var d = 0u; d < HEAD; d++) { // unroll
                keys[v * HEAD + d] = textureLoad(key_texels, texel(first_key_line + place * key_stride + d * 4u));
            }
            for (var e = 0u; e < VALUE; e++) { // unroll
                let word = first_value_line + place * value_stride + e * 4u;
                values[v * PADDED + e] = textureLoad(value_texels, texel(word));
            }
        }
        let is_whole = !HAS_MASK && !HAS_BIAS && i32(key) >= whole.x && i32(key + KEYS) <= whole.y;
        // The panels that all rows see need no question.
        for (var part = 0u; part < PARTS; part++) { // unroll
            var query = first_query + first_row / group;
            var head = first_row % group;
            for (var r = 0u; r < select(0u, num_rows, is_whole == (part == 0u)); r++) {
                let line = first_query_line + query * query_stride + head * head_dim;
                var queries: array<vec4<f32>, QUERY_LOADS>;
                for (var t = 0u; t < QUERY_LOADS; t++) { // unroll
                    let word = min((t * LANES + lane) * 4u, head_dim - 4u);
                    queries[t] = textureLoad(query_texels, texel(line + word));
                }
                // products[v] of a lane: of the row with its key v; then its score; then its weight
                var products: array<f32, LOADS>;
                for (var p = 0u; p < PASSES; p++) { // unroll
                    for (var d = 0u; d < HEAD; d++) { // unroll
                        let four = subgroupShuffle(queries[d / LANES], d % LANES);
                        for (var i = 0u; i < 4u; i++) { // unroll
                            for (var v = 0u; v < PASS; v++) { // unroll
                                products[p * PASS + v] += four[i] * keys[(p * PASS + v) * HEAD + d][i];
                            }
                        }
                    }
                }
                let state = states[r * SLOTS + GROUPS];
                let before = subgroupShuffle(state, LARGEST);
                var largest = LOWEST;
                var visible: array<bool, LOADS>;
                var seen = true;
                if part == 0u {
                    for (var v = 0u; v < LOADS; v++) { // unroll
                        products[v] *= scale;
                        largest = max(largest, products[v]);
                    }
                } else {
                    let first = max(i32(query) + band_start, 0);
                    let end = bitcast<i32>(subgroupShuffle(state, END));
                    seen = false;
                    var mask_words = 0u;
                    let mask_bit = first_mask + head * mask_head_stride + query * num_keys + key;
                    if HAS_MASK {
                        // A word to a lane: those of all keys of the panel.
                        mask_words = attend_mask[min((mask_bit >> 5u) + lane, arrayLength(&attend_mask) - 1u)];
                    }
                    for (var v = 0u; v < LOADS; v++) { // unroll
                        let place = key + v * LANES + lane;
                        var score = scale * products[v];
                        visible[v] = i32(place) >= first && i32(place) < end;
                        if HAS_MASK {
                            let bit = (mask_bit & 31u) + v * LANES + lane;
                            let word = subgroupShuffle(mask_words, bit >> 5u);
                            visible[v] = visible[v] && ((word >> (bit & 31u)) & 1u) != 0u;
                        }
                        if HAS_BIAS {
                            let bias_row = first_bias + head * bias_head_stride + query * num_keys;
                            let added = bias[bias_row + min(place, num_keys - 1u)];
                            visible[v] = visible[v] && bitcast<u32>(added) != MINUS_INFINITY;
                            score += select(0.0, added, place < num_keys);
                        }
                        // Learned keys after the real ones are beyond masks and lengths.
                        visible[v] = visible[v] || (place >= num_keys && place < all_columns);
                        largest = max(largest, select(LOWEST, score, visible[v]));
                        seen = seen || visible[v];
                        products[v] = score;
                    }
                    seen = subgroupAny(seen) || subgroupShuffle(state, SEEN) != 0.0;
                }
                largest = max(before, largest_of_lanes(largest));
                let factor = power(before, largest);
                var sum = 0.0;
                for (var v = 0u; v < LOADS; v++) { // unroll
                    var weight = power(products[v], largest);
                    if part == 1u {
                        weight = select(0.0, weight, visible[v]);
                    }
                    sum += weight;
                    if HAS_DROPOUT {
                        let place = key + v * LANES + lane;
                        let kept = kept_of(entry, kv_head * group + head, query, place / 4u) >> (place & 3u);
                        weight *= f32(kept & 1u);
                    }
                    products[v] = weight;
                }
                sum = subgroupShuffle(state, SUM) * factor + sum_of_lanes(sum);
                let met = select(select(state, f32(seen), lane == SEEN), sum, lane == SUM);
                states[r * SLOTS + GROUPS] = select(met, largest, lane == LARGEST);
                for (var g = 0u; g < GROUPS; g++) { // unroll
                    // added[j]: word g · LANES + j of the weighed values of a lane's own keys
                    var added: array<f32, LANES>;
                    for (var v = 0u; v < LOADS; v++) { // unroll
                        for (var j = 0u; j < LANES; j++) { // unroll
                            let e = g * LANES + j;
                            let weighed = products[v] * values[v * PADDED + e / 4u][e % 4u];
                            if part == 0u {
                                added[j] += weighed;
                            } else {
                                // 0 · ∞ would be NaN: what a hidden key's value holds must not count.
                                added[j] += select(0.0, weighed, visible[v]);
                            }
                        }
                    }
                    states[r * SLOTS + g] = states[r * SLOTS + g] * factor + gathered(added, lane);
                }
                head += 1u;
                query += select(0u, 1u, head == group);
                head = select(head, 0u, head == group);
            }
        }
    }
    var undropped = 1.0;
    if HAS_DROPOUT {
        undropped = kept_scale();
    }
    var query = first_query + first_row / group;
    var head = first_row % group;
    for (var r = 0u; r < num_rows; r++) {
        let state = states[r * SLOTS + GROUPS];
        let line = (entry * all_rows + query) * out_stride + (kv_head * group + head) * value_dim;
        for (var t = 0u; t < VALUE_LOADS; t++) { // unroll
            // Four words of a value from four lanes.
            let four = t * LANES + lane;
            var words: array<f32, 4>;
            for (var g = 0u; g < GROUPS; g++) { // unroll
                let own = states[r * SLOTS + g];
                for (var i = 0u; i < 4u; i++) { // unroll
                    let e = four * 4u + i;
                    words[i] = select(words[i], subgroupShuffle(own, e % LANES), e / LANES == g);
                }
            }
            let sums = vec4<f32>(words[0], words[1], words[2], words[3]);
            let value = sums / subgroupShuffle(state, SUM) * undropped;
            if four * 4u < value_dim {
                store(line + four * 4u, select(vec4<f32>(), value, subgroupShuffle(state, SEEN) != 0.0));
            }
        }
        head += 1u;
        query += select(0u, 1u, head == group);
        head = select(head, 0u, head == group);
    }
}
