// partial_attention: what a part of the keys adds to an attention, g = h / (H / G)
//
//   out[b][i][h][p] = Σ dropout(exp(score[j] − largest)) · v[b][j][g] over the keys j of part p, largest,
//                     Σ exp(score[j] − largest)
//   score[j] = scale · q[b][i][h] · k[b][j][g] + bias
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side → out (B, Lq, H · parts · (dv + 2))
//
// One workgroup = up to ROWS rows (queries of the heads that share a key/value head, so that K and V are read once for
// them) × one part: of the tiles of TILE keys those whose number leaves the part's as remainder.
// One invocation = KEYS keys of a tile when scores are found, then four columns of the values for every STRIPES-th key.
// What a row gets depends on its own keys alone, and tiles are met in order: the bits are the same in any chunk of
// queries.
// Chosen where queries are few (otherwise too little would run at once) and for caches. Assumes nothing of the device;
// words are read four at a time, so heads start at multiples of four.
// Arithmetic intensity: two operations of ROWS rows for each loaded word. At most 16 KiB of workgroup memory.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_LENGTHS: bool = true;
override HAS_DROPOUT: bool = true;
// Whether keys and values are stored as halves, two to a word.
override HALVES: bool = true;
const LANES: u32 = 64u;
// Groups of four rows; all rows.
const FOURS: u32 = 1u;
const ROWS: u32 = FOURS * 4u;
// Keys of one lane in a tile; all of a tile.
const KEYS: u32 = 4u;
const TILE: u32 = KEYS * LANES;
// Groups of four in a head's queries, and in its values.
const HEAD: u32 = 16u;
const VALUE: u32 = 16u;
// Lanes side by side on groups of a value; how many keys are met at once; groups of one lane.
const COLUMNS: u32 = 16u;
const STRIPES: u32 = 4u;
const SUMS: u32 = 1u;
const QUERY_TILE: u32 = HEAD * ROWS;
const WEIGHT_TILE: u32 = TILE * FOURS;
const LARGEST_TILE: u32 = LANES * FOURS;
const FEW_TILE: u32 = 8u * FOURS;
const PRODUCTS: u32 = KEYS * FOURS;
const SCORES: u32 = KEYS * ROWS;
const ALL_SUMS: u32 = SUMS * ROWS;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;

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
    key_width: u32,
    value_first: u32,
    value_stride: u32,
    value_width: u32,
    parts: u32,
    query_base: u32,
    key_base: u32,
    value_base: u32,
    valid_lens_base: u32,
    mask_base: u32,
    bias_base: u32,
    pattern_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<f32>;
@group(0) @binding(2) var<storage, read> key: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> value: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(5) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
// Where HAS_LENGTHS, rows before and new ones of each entry; else which weights are kept. A cache drops none, and
// WebGPU promises no more than eight buffers.
@group(0) @binding(7) var<storage, read> pattern: array<u32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

// query_tile[four · ROWS + r]: of row r
var<workgroup> query_tile: array<vec4<f32>, QUERY_TILE>;
// weight_tile[j · FOURS + f]: of key j of the tile, for four rows; and a bit for each row that sees it
var<workgroup> weight_tile: array<vec4<f32>, WEIGHT_TILE>;
var<workgroup> seen_tile: array<u32, TILE>;
// For each lane, then for each of eight, the largest score of four rows; in the end sums of weights.
var<workgroup> largest_tile: array<vec4<f32>, LARGEST_TILE>;
var<workgroup> few_tile: array<vec4<f32>, FEW_TILE>;
var<workgroup> sum_tile: array<vec4<f32>, LANES>;

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
    var position = i32(query_row);
    var end = i32(params.num_keys);
    if HAS_LENGTHS {
        // Beyond the keys they could be any number.
        let before = min(pattern[params.pattern_base + entry * 2u], params.num_keys);
        let added = min(pattern[params.pattern_base + entry * 2u + 1u], params.num_keys - before);
        position += i32(before);
        end = select(0, i32(before + added), query_row < added);
    }
    let first = max(position + params.band_start, 0);
    end = min(position + params.band_end, end);
    if params.has_valid_lens != 0u {
        let place = entry * params.valid_lens_entry_stride + query_row * params.valid_lens_row_stride;
        // A length past all keys hides none; compared unsigned, it cannot turn negative.
        end = min(end, i32(min(valid_lens[params.valid_lens_base + place], params.num_keys)));
    }
    let mask_row = entry * params.mask_entry_stride + head * params.mask_head_stride + query_row * params.num_keys;
    let bias_row = entry * params.bias_entry_stride + head * params.bias_head_stride + query_row * params.num_keys;
    return Row(query_row, head, first, end, params.mask_base + mask_row, params.bias_base + bias_row);
}

fn powers(of_scores: vec4<f32>, most: vec4<f32>) -> vec4<f32> {
    return exp2((of_scores - most) * LOG2_E);
}

// --- One score: the same text wherever it is found key by key ---

// A key's scaled and biased score, and whether the query sees it: two facts, no magic number for the second.
struct Score {
    value: f32,
    visible: bool,
}

fn score_of(row: Row, key_row: u32, product: f32) -> Score {
    var score = Score(params.scale * product, key_row < params.columns);
    // Learned keys after the real ones are beyond masks and lengths.
    if key_row >= params.num_keys {
        return score;
    }
    score.visible = i32(key_row) >= row.first_key && i32(key_row) < row.end_key;
    if HAS_MASK {
        let place = row.mask + key_row;
        score.visible = score.visible && ((attend_mask[place >> 5u] >> (place & 31u)) & 1u) != 0u;
    }
    if HAS_BIAS {
        let added = bias[row.bias + key_row];
        score.visible = score.visible && bitcast<u32>(added) != MINUS_INFINITY;
        score.value += added;
    }
    return score;
}

// --- End of the score ---

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

// Four numbers from a place on, a multiple of four, of the four words around it.
fn unpacked(words: vec4<u32>, place: u32) -> vec4<f32> {
    if HALVES {
        let pair = select(words.xy, words.zw, (place & 4u) != 0u);
        return vec4<f32>(unpack2x16float(pair.x), unpack2x16float(pair.y));
    }
    return bitcast<vec4<f32>>(words);
}

fn words_at(place: u32) -> u32 {
    return select(place >> 2u, place >> 3u, HALVES);
}

fn load_key(entry: u32, kv_head: u32, key_row: u32, four: u32) -> vec4<f32> {
    let line = (entry * params.columns + min(key_row, params.columns - 1u)) * params.key_stride;
    let place = params.key_base + params.key_first + line + kv_head * params.key_width + four * 4u;
    return unpacked(key[words_at(place)], place);
}

fn load_value(entry: u32, kv_head: u32, key_row: u32, four: u32) -> vec4<f32> {
    let line = (entry * params.columns + min(key_row, params.columns - 1u)) * params.value_stride;
    let place = params.value_base + params.value_first + line + kv_head * params.value_width + four * 4u;
    return unpacked(value[words_at(place)], place);
}

// Four words of a query from group `four` on, zeros behind the head.
fn load_query(entry: u32, row: Row, four: u32) -> vec4<f32> {
    let line = (entry * params.all_rows + row.query) * params.query_stride + row.head * params.head_dim;
    let place = params.query_base + params.query_first + line;
    let last = params.head_dim - 1u;
    let word = vec4<u32>(four * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    let words = vec4<f32>(
        query[place + min(word.x, last)],
        query[place + min(word.y, last)],
        query[place + min(word.z, last)],
        query[place + min(word.w, last)],
    );
    return select(vec4<f32>(), words, word <= vec4<u32>(last));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let kv_heads = params.num_heads / params.group;
    // The grid is folded into two dimensions and may have workgroups to spare: they do the last block again and store
    // nothing.
    let num_blocks = blocks * params.parts * params.entries * kv_heads;
    let spare = workgroup.y * params.grid_width + workgroup.x >= num_blocks;
    let block = min(workgroup.y * params.grid_width + workgroup.x, num_blocks - 1u);
    let part = block % params.parts;
    let first_row = block / params.parts % blocks * ROWS;
    let entry = params.entry_start + block / params.parts / blocks / kv_heads;
    let kv_head = block / params.parts / blocks % kv_heads;
    // Rows past the end repeat the last one and are not stored.
    var rows: array<Row, ROWS>;
    var first_key = i32(params.num_keys);
    var end_key = 0;
    for (var r = 0u; r < ROWS; r++) { // unroll
        rows[r] = row_of(entry, kv_head, min(first_row + r, group_rows - 1u));
        first_key = min(first_key, rows[r].first_key);
        end_key = max(end_key, rows[r].end_key);
    }
    for (var i = lane; i < QUERY_TILE; i += LANES) {
        let row = row_of(entry, kv_head, min(first_row + i % ROWS, group_rows - 1u));
        query_tile[i] = load_query(entry, row, i / ROWS);
    }
    // The learned key stands behind all others.
    let end = select(u32(end_key), params.columns, params.columns > params.num_keys);
    // The part's first tile that is not before all keys that are seen.
    let tile_before = u32(first_key) / TILE;
    let first_tile = tile_before + (part + params.parts - tile_before % params.parts) % params.parts;
    let column = lane % COLUMNS;
    let stripe = lane / COLUMNS;
    var largest: array<vec4<f32>, FOURS>;
    var sum: array<vec4<f32>, FOURS>;
    for (var f = 0u; f < FOURS; f++) { // unroll
        largest[f] = vec4<f32>(LOWEST);
    }
    var seen = 0u;
    // sums[s · ROWS + r] = Σ weight · value[·][4(column + s · COLUMNS) ..] of row r
    var sums: array<vec4<f32>, ALL_SUMS>;
    // The queries.
    workgroupBarrier();
    for (var tile = first_tile * TILE; tile < end; tile += TILE * params.parts) {
        // products[k · FOURS + f]: of the lane's key k with four rows
        var products: array<vec4<f32>, PRODUCTS>;
        for (var four = 0u; four < HEAD; four++) {
            var own: array<vec4<f32>, KEYS>;
            for (var k = 0u; k < KEYS; k++) { // unroll
                own[k] = load_key(entry, kv_head, tile + k * LANES + lane, four);
            }
            for (var f = 0u; f < FOURS; f++) { // unroll
                let place = four * ROWS + f * 4u;
                let queries = mat4x4<f32>(
                    query_tile[place],
                    query_tile[place + 1u],
                    query_tile[place + 2u],
                    query_tile[place + 3u],
                );
                for (var k = 0u; k < KEYS; k++) { // unroll
                    products[k * FOURS + f] += own[k] * queries;
                }
            }
        }
        var scores: array<f32, SCORES>;
        var bits: array<u32, KEYS>;
        var own_largest: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { // unroll
            own_largest[r] = LOWEST;
            for (var k = 0u; k < KEYS; k++) { // unroll
                let score = score_of(rows[r], tile + k * LANES + lane, products[k * FOURS + r / 4u][r % 4u]);
                scores[k * ROWS + r] = score.value;
                bits[k] |= u32(score.visible) << r;
                own_largest[r] = select(own_largest[r], max(own_largest[r], score.value), score.visible);
            }
        }
        // A bit for each of the scores whose weight is kept. Written out, ten rounds for each would be too much text.
        var kept = 0u;
        var kept_factor = 1.0;
        if HAS_DROPOUT {
            for (var i = 0u; i < SCORES; i++) {
                let row = min(first_row + i % ROWS, group_rows - 1u);
                let head = kv_head * params.group + row % params.group;
                let key_row = tile + i / ROWS * LANES + lane;
                let four = kept_of(entry, head, params.row_start + row / params.group, key_row / 4u);
                kept |= ((four >> (key_row & 3u)) & 1u) << i;
            }
            kept_factor = kept_scale();
        }
        for (var f = 0u; f < FOURS; f++) { // unroll
            largest_tile[lane * FOURS + f] = vec4<f32>(
                own_largest[f * 4u],
                own_largest[f * 4u + 1u],
                own_largest[f * 4u + 2u],
                own_largest[f * 4u + 3u],
            );
        }
        // The largest scores of all lanes; nobody reads the weights of the tile before any more.
        workgroupBarrier();
        if lane < 8u {
            for (var f = 0u; f < FOURS; f++) { // unroll
                var most = vec4<f32>(LOWEST);
                for (var i = 0u; i < 8u; i++) {
                    most = max(most, largest_tile[(lane * 8u + i) * FOURS + f]);
                }
                few_tile[lane * FOURS + f] = most;
            }
        }
        // The largest scores of eight lanes each.
        workgroupBarrier();
        var factors: array<vec4<f32>, FOURS>;
        for (var f = 0u; f < FOURS; f++) { // unroll
            let before = largest[f];
            for (var i = 0u; i < 8u; i++) {
                largest[f] = max(largest[f], few_tile[i * FOURS + f]);
            }
            factors[f] = powers(before, largest[f]);
            sum[f] *= factors[f];
            for (var k = 0u; k < KEYS; k++) { // unroll
                let at = k * ROWS + f * 4u;
                let score = vec4<f32>(scores[at], scores[at + 1u], scores[at + 2u], scores[at + 3u]);
                let counts = ((vec4<u32>(bits[k]) >> (vec4<u32>(f * 4u) + vec4<u32>(0u, 1u, 2u, 3u))) & vec4<u32>(1u))
                    != vec4<u32>();
                let of_key = select(vec4<f32>(), powers(score, largest[f]), counts);
                sum[f] += of_key;
                var counted = of_key;
                if HAS_DROPOUT {
                    let bits_of_four = vec4<u32>(kept) >> (vec4<u32>(at) + vec4<u32>(0u, 1u, 2u, 3u));
                    let is_kept = (bits_of_four & vec4<u32>(1u)) != vec4<u32>();
                    counted *= select(vec4<f32>(), vec4<f32>(kept_factor), is_kept);
                }
                weight_tile[(k * LANES + lane) * FOURS + f] = counted;
            }
        }
        for (var k = 0u; k < KEYS; k++) { // unroll
            seen_tile[k * LANES + lane] = bits[k];
            seen |= bits[k];
        }
        for (var s = 0u; s < SUMS; s++) { // unroll
            for (var r = 0u; r < ROWS; r++) { // unroll
                sums[s * ROWS + r] *= factors[r / 4u][r % 4u];
            }
        }
        // Weights, and who sees which key.
        workgroupBarrier();
        for (var j = stripe; j < TILE; j += STRIPES) {
            let seen_by = seen_tile[j];
            if seen_by != 0u && stripe < STRIPES {
                var weights: array<vec4<f32>, FOURS>;
                for (var f = 0u; f < FOURS; f++) { // unroll
                    weights[f] = weight_tile[j * FOURS + f];
                }
                for (var s = 0u; s < SUMS; s++) { // unroll
                    let loaded = load_value(entry, kv_head, tile + j, min(column + s * COLUMNS, VALUE - 1u));
                    for (var r = 0u; r < ROWS; r++) { // unroll
                        // A hidden key's value takes no part, whatever it holds.
                        let counts = ((seen_by >> r) & 1u) != 0u;
                        let added = weights[r / 4u][r % 4u] * loaded;
                        sums[s * ROWS + r] += select(vec4<f32>(), added, counts);
                    }
                }
            }
        }
    }
    // Nobody reads the largest scores any more.
    workgroupBarrier();
    for (var f = 0u; f < FOURS; f++) { // unroll
        largest_tile[lane * FOURS + f] = sum[f];
    }
    seen_tile[lane] = seen;
    // Each lane's sums of weights, and which rows saw a key.
    workgroupBarrier();
    if lane == 0u {
        for (var i = 1u; i < LANES; i++) {
            for (var f = 0u; f < FOURS; f++) { // unroll
                sum[f] += largest_tile[i * FOURS + f];
            }
            seen |= seen_tile[i];
        }
        for (var r = 0u; r < ROWS; r++) { // unroll
            if first_row + r < group_rows && !spare {
                let saw = ((seen >> r) & 1u) != 0u;
                let place = out_at(entry, rows[r], part) + params.value_dim;
                out[place] = select(0.0, largest[r / 4u][r % 4u], saw);
                out[place + 1u] = select(-1.0, sum[r / 4u][r % 4u], saw);
            }
        }
    }
    for (var s = 0u; s < SUMS; s++) { // unroll
        for (var r = 0u; r < ROWS; r++) { // unroll
            sum_tile[lane] = sums[s * ROWS + r];
            // Sums of all stripes.
            workgroupBarrier();
            if stripe == 0u && first_row + r < group_rows && !spare {
                var all = sum_tile[lane];
                for (var i = 1u; i < STRIPES; i++) {
                    all += sum_tile[i * COLUMNS + lane];
                }
                store(out_at(entry, rows[r], part), (column + s * COLUMNS) * 4u, all);
            }
            // The sums have been read.
            workgroupBarrier();
        }
    }
}

// Where a part of a row starts in the output.
fn out_at(entry: u32, row: Row, part: u32) -> u32 {
    let line = ((entry * params.all_rows + row.query) * params.num_heads + row.head) * params.parts + part;
    return params.out_base + line * (params.value_dim + 2u);
}

// Stores four columns, as far as there are so many.
fn store(place: u32, first: u32, words: vec4<f32>) {
    if first < params.value_dim {
        out[place + first] = words.x;
    }
    if first + 1u < params.value_dim {
        out[place + first + 1u] = words.y;
    }
    if first + 2u < params.value_dim {
        out[place + first + 2u] = words.z;
    }
    if first + 3u < params.value_dim {
        out[place + first + 3u] = words.w;
    }
}
