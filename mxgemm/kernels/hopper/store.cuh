// From sums to D in two steps: finish makes packed words of the sums, by the epilogue, in registers; write
// moves the words to the store buffers, which the copy engine stores, or, where D's rows are not aligned,
// stores them by element along D's contiguous axis.  Between the two the sums' registers are free, so the
// next tile's first products run while this one is written, but for what the next one's sums leave no registers.

template <class I> struct Store {
    using S = Stage<I>;
    using G = Chunks<I>;
    using E = typename I::Epilogue;
    using F = Fetched<E>;
    using C = typename E::CType;
    using D = typename E::DType;
    using T = typename I::Sum;
    // A step is 16 columns of the warp's 16 rows: a thread's four pairs, in WORDS words of D.
    static constexpr int STEP = 16, STEPS = I::BN / STEP, WORDS = 2 * int(sizeof(D)), CHUNK_STEPS = G::COLUMNS / STEP;
    static_assert(I::BN % STEP == 0 && (I::ROW_BLOCKS == 1 || Terms<I>::BYTES == 0));
    static constexpr int CHUNK_WORDS = CHUNK_STEPS * WORDS, ALL_WORDS = STEPS * WORDS;
    // Chunks that are written before the next tile begins, because its sums leave their words no registers.
    static constexpr int EXCESS = ALL_WORDS - I::Chains::WORDS, DIRECT = EXCESS > 0 ? (EXCESS + CHUNK_WORDS - 1) / CHUNK_WORDS : 0;

    const Arguments<T>& p;
    u32 shared;
    int group, thread;
    u32 count = 0;    // blocks of rows finished
    bool overflow = false;

    using Rows = RowOrder<I::A_REGISTERS>;
    static constexpr int BELOW = Rows::STEP;    // from the upper of a thread's rows to the lower

    // Where this thread's pairs lie: the first one's row and column in the warpgroup's tile, and the address,
    // in the first buffer, of it or of the row whose address the matrix instructions want.
    struct Spot {
        int thread, row, col;
        u32 buffers, swizzled, tail;
        Terms<I> terms;
        Handover<I, G::COUNT> handover;
    };
    __device__ __forceinline__ Spot spot() const {
        int t = thread;
        u32 base = shared;
        asm volatile("" : "+r"(t), "+r"(base));    // else ptxas keeps every address in a register from tile to tile
        const int warp = t / 32, lane = t % 32, row = Rows::row(warp, lane / 4), col = 2 * (lane % 4);
        const int staged = sizeof(D) == 2 ? Rows::row(warp, lane % 8) + lane / 8 % 2 * BELOW : row;
        const int byte = sizeof(D) == 2 ? lane / 16 * PIECE_BYTES : col * int(sizeof(D));
        const u32 buffers = base + S::buffers(group);
        u32 line = swizzled(staged, byte / PIECE_BYTES) + byte % PIECE_BYTES;
        if constexpr (G::TURNED) line = sizeof(D) == 2 ? swizzled(lane / 16 * 8 + lane % 8, staged / 8) : turned_word(row, col);
        return {t, row, col, buffers, buffers + line, buffers + u32(staged * G::TAIL_BYTES + byte),
                Terms<I>{base + S::TERMS}, Handover<I, G::COUNT>{base + S::handover(group)}};
    }
    // Where D lies along its rows: a word of D in the first buffer.
    __device__ __forceinline__ static u32 turned_word(int row, int col) {
        return row / G::PART_ROWS * G::PART_BYTES + swizzled(col, row % G::PART_ROWS / 4) + row % 4 * 4;
    }
    // The same in `chunk`, `step` steps and `i` pairs on; pair i has columns 8 * (i / 2) on of the upper or lower 8 rows.
    __device__ __forceinline__ static u32 address(const Spot& at, int chunk, int step, int i) {
        const bool tail = I::BULK_STORE && G::is_tail(chunk);
        const u32 byte = u32(STEP * step + 8 * (i / 2)) * sizeof(D), buffer = I::BULK_STORE ? chunk % I::BUFFERS * S::STORE_BYTES : 0;
        const u32 below = i % 2 * BELOW;
        if (tail) return at.tail + buffer + below * G::TAIL_BYTES + byte;
        // Rows 8 apart are swizzled alike; the lower one of two neighbours is odd.
        return (at.swizzled ^ byte ^ (BELOW == 1 ? below * PIECE_BYTES : 0)) + buffer + below * ROW_BYTES;
    }
    // The address that the matrix instructions want for a step.
    __device__ __forceinline__ static u32 matrices_address(const Spot& at, int chunk, int step) {
        return G::TURNED ? line_address(at, chunk, step, 0, 0) : address(at, chunk, step, 0);
    }
    // Where D lies along its rows: the line of column `second` of the pairs at columns 8 * block of the step; upper row.
    __device__ __forceinline__ static u32 line_address(const Spot& at, int chunk, int step, int block, int second) {
        return (at.swizzled ^ second * PIECE_BYTES) + chunk % I::BUFFERS * S::STORE_BYTES + (STEP * step + 8 * block + second) * ROW_BYTES;
    }
    // The lower row in the same line.
    __device__ __forceinline__ static u32 lower(u32 line) { return line ^ BELOW / 4 * PIECE_BYTES; }

    // C of a step, which the copy engine has put where D will be staged, in words as D's.
    __device__ __forceinline__ static void read_turned(const Spot& at, int chunk, int step, u32 (&words)[WORDS]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int block = i / 2, second = i % 2;
            const u32 line = line_address(at, chunk, step, block, second);
            const Pair<u32> rows = BELOW == 1 ? get_shared_pair<u32>(line) : Pair<u32>{get_shared<u32>(line), get_shared<u32>(lower(line))};
            words[4 * block + second] = rows.x, words[4 * block + 2 + second] = rows.y;
        }
    }
    __device__ __forceinline__ static void read_step(const Spot& at, int chunk, int step, u32 (&words)[WORDS]) {
        if constexpr (sizeof(C) == 2) {
            staged_matrices<G::TURNED>(matrices_address(at, chunk, step), words);
        } else if constexpr (G::TURNED) {
            read_turned(at, chunk, step, words);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const u32 from = address(at, chunk, step, i);
                if constexpr (sizeof(C) == 4) {
                    const Pair<u32> two = get_shared_pair<u32>(from);
                    words[2 * i] = two.x, words[2 * i + 1] = two.y;
                } else {
                    words[i / 2] = (i % 2 ? words[i / 2] : 0) | staged_two_bytes(from) << (16 * (i % 2));
                }
            }
        }
    }
    // Entry `index` of a thread's eight in such words.
    __device__ __forceinline__ static T entry_of(const u32 (&words)[WORDS], int index) {
        constexpr int EACH = 4 / int(sizeof(C));    // in a word
        return To<T>::from(element_of<C>(words[index / EACH], index % EACH));
    }
    // Entries (row, col) and (row, col + 1) of a matrix in device memory; past its edge those of its last row and columns.
    template <class X> __device__ __forceinline__ Pair<T> read_entries(const X* matrix, i64 row_stride, i64 col_stride, int row, int col) const {
        const int last = int(p.n) - 1;
        const X* from = matrix + least(row, int(p.m) - 1) * row_stride;
        return {To<T>::from(from[least(col, last) * col_stride]), To<T>::from(from[least(col + 1, last) * col_stride])};
    }
    __device__ __forceinline__ Pair<T> read_c(const TilePlace& tile, int row, int col) const {
        const C* matrix = static_cast<const C*>(p.c) + tile.product * p.batch[0].c;
        if constexpr (!I::C_PAIRS) return read_entries(matrix, p.c_row, p.c_col, row, col);
        struct alignas(2 * sizeof(C)) Two { C x, y; };
        const Two two = *reinterpret_cast<const Two*>(matrix + least(row, int(p.m) - 1) * p.c_row + least(col, int(p.n) - 2));
        return {To<T>::from(two.x), To<T>::from(two.y)};
    }
    __device__ __forceinline__ Pair<T> read_bias(const TilePlace& tile, const Terms<I>& terms, int row, int col) const {
        using Bias = typename F::Bias;
        if constexpr (same<Bias, Absent>) {
            return {};
        } else if constexpr (I::BIAS == ALONG_COLUMNS) {
            return get_shared_pair<T>(terms.values + 4 * (col - tile.col));
        } else if constexpr (I::BIAS == ALONG_ROWS) {
            const T x = get_shared<T>(terms.values + 4 * (row - tile.row));
            return {x, x};
        } else {
            return read_entries(static_cast<const Bias*>(p.bias) + tile.product * p.batch[0].bias, p.bias_row, p.bias_col, row, col);
        }
    }
    // Keeps ptxas from reading C or bias from device memory far ahead, which would fill the registers.
    __device__ __forceinline__ void keep_order() const {
        if ((p.mode & MODE_C && !I::STAGES_C) || I::BIAS == EACH_ENTRY) __syncwarp();
    }
    // Whether columns of a step exist in a tile whose last chunk is narrower.
    __device__ __forceinline__ static constexpr bool exists(int chunk, int step) { return chunk * CHUNK_STEPS + step < STEPS; }
    __device__ __forceinline__ static constexpr int first_of(int chunk, int step) { return 8 * (chunk * CHUNK_STEPS + step); }

    // What no activation makes an overflow: NaN, or an integer.
    __device__ __forceinline__ static T past_edge() {
        if constexpr (same<T, float>) return __int_as_float(0x7FFFFFFF);
        else return 0;
    }
    // Whether beta C is exact for every C: 11 significant bits at most of C, 12 of beta, and no exponent out of range.
    static constexpr bool MAY_FUSE = I::STAGES_C && sizeof(C) == 2 && same<T, float> && !Terms<I>::BIAS_BY_ENTRY;
    __device__ __forceinline__ bool fuses() const {
        constexpr float UNIT = 1.0f / 4096;
        return MAY_FUSE && fabsf(p.beta) <= 1 && rintf(p.beta / UNIT) * UNIT == p.beta;
    }
    // The entries of a step before the activation, in place of its sums; `words` are those of a staged C.
    template <bool FUSED> __device__ __forceinline__ void take_terms(const TilePlace& tile, const Spot& at, int chunk, int step, const u32 (&words)[WORDS], T (&sums)[I::BN / 2]) const {
        Pair<T> c[4] = {};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            keep_order();
            const int sum = first_of(chunk, step) + 2 * i;
            const int row = tile.row + CONSUMER_ROWS<I> * group + at.row + BELOW * (i % 2), col = tile.col + at.col + chunk * G::COLUMNS + STEP * step + 8 * (i / 2);
            if constexpr (I::STAGES_C) c[i] = {entry_of(words, 2 * i), entry_of(words, 2 * i + 1)};
            else if (p.mode & MODE_C) c[i] = read_c(tile, row, col);
            const Pair<T> bias = read_bias(tile, at.terms, row, col);
            T scale = 0;
            Pair<T> scales = {};
            if constexpr (Terms<I>::ROWS > 0) scale = get_shared<T>(at.terms.rows() + 4 * (row - tile.row));
            if constexpr (Terms<I>::COLUMNS > 0) scales = get_shared_pair<T>(at.terms.columns() + 4 * (col - tile.col));
            sums[sum] = F::template before<FUSED>(p, sums[sum], c[i].x, bias.x, scale, scales.x);
            sums[sum + 1] = F::template before<FUSED>(p, sums[sum + 1], c[i].y, bias.y, scale, scales.y);
            if constexpr (sizeof(D) == 1) {    // entries past the edge are not stored, and must not report overflow
                if (row >= p.m || col >= p.n) sums[sum] = past_edge();
                if (row >= p.m || col + 1 >= p.n) sums[sum + 1] = past_edge();
            }
        }
    }
    // An entry after the activation; where D has 8 bits, D's bits.
    __device__ __forceinline__ T ended(T x) {
        const T y = F::activated(p, x);
        if constexpr (sizeof(D) != 1) return y;
        const u32 bits = bits_of(Output<D>::from(y, overflow));
        return *reinterpret_cast<const T*>(&bits);
    }
    // All entries of a thread, eight at a time; they move up, so that the loop's registers have fixed names.
    __device__ __forceinline__ void end_all(T (&entries)[I::BN / 2]) {
#pragma unroll 1
        for (int i = 0; i < STEPS; ++i) {
            T now[8];
#pragma unroll
            for (int j = 0; j < 8; ++j) now[j] = ended(entries[j]);
#pragma unroll
            for (int j = 0; j < I::BN / 2 - 8; ++j) entries[j] = entries[j + 8];
#pragma unroll
            for (int j = 0; j < 8; ++j) entries[I::BN / 2 - 8 + j] = now[j];
        }
    }
    __device__ __forceinline__ void pack_step(const T (&ended)[8], u32 (&words)[WORDS]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const T x = ended[2 * i], y = ended[2 * i + 1];
            if constexpr (sizeof(D) == 2) {
                words[i] = rounded_pair<D>(x, y);
            } else if constexpr (sizeof(D) == 4) {
                words[2 * i] = bits_of(Output<D>::from(x, overflow)), words[2 * i + 1] = bits_of(Output<D>::from(y, overflow));
            } else {
                words[i / 2] = (i % 2 ? words[i / 2] : 0) | (bits_of(x) | bits_of(y) << 8) << (16 * (i % 2));
            }
        }
    }
    __device__ __forceinline__ static void stage_turned(const Spot& at, int chunk, int step, const u32 (&words)[WORDS]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int block = i / 2, second = i % 2;
            const u32 line = line_address(at, chunk, step, block, second);
            const u32 upper = words[4 * block + second], below = words[4 * block + 2 + second];
            if constexpr (BELOW == 1) {
                stage_two_words(line, upper, below);
            } else {
                put_shared(line, upper);
                put_shared(lower(line), below);
            }
        }
    }
    __device__ __forceinline__ static void stage_step(const Spot& at, int chunk, int step, const u32 (&words)[WORDS]) {
        if constexpr (sizeof(D) == 2) {
            stage_matrices<G::TURNED>(matrices_address(at, chunk, step), words);
        } else if constexpr (G::TURNED) {
            stage_turned(at, chunk, step, words);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (sizeof(D) == 4) stage_two_words(address(at, chunk, step, i), words[2 * i], words[2 * i + 1]);
                else stage_two_bytes(address(at, chunk, step, i), words[i / 2] >> (16 * (i % 2)));
            }
        }
    }

    // C of the tile that is being multiplied, into the registers of its words: the chunks that are the last in their
    // buffers, or those that others follow.
    template <int COUNT> __device__ __forceinline__ void hold_c(bool last, T (&words)[COUNT]) const {
        static_assert(DIRECT == 0);
        const Spot at = spot();
#pragma unroll
        for (int chunk = last ? G::REUSED : 0; chunk < (last ? G::COUNT : G::REUSED); ++chunk) {
            at.handover.wait_c(count, chunk);
#pragma unroll
            for (int step = 0; step < CHUNK_STEPS; ++step) {
                if (!exists(chunk, step)) continue;
                u32 c[WORDS];
                read_step(at, chunk, step, c);
#pragma unroll
                for (int i = 0; i < WORDS; ++i) words[chunk * CHUNK_WORDS + step * WORDS + i] = *reinterpret_cast<T*>(&c[i]);
            }
            if (last) continue;
            async_proxy_fence();    // the copy engine writes here next
            __syncwarp();
            if (at.thread % 32 == 0) barrier_arrive(at.handover.staged(chunk));
        }
    }
    // The same of a chunk, whose held words of C lie in words[first] on.
    template <bool FUSED, int COUNT>
    __device__ __forceinline__ void take_terms(const TilePlace& tile, const Spot& at, int chunk, T (&sums)[I::BN / 2], const T (&words)[COUNT], int first) const {
        if constexpr (I::STAGES_C && !I::HOLDS_C) at.handover.wait_c(count, chunk);
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; ++step) {
            if (!exists(chunk, step)) continue;
            u32 c[WORDS] = {};
            if constexpr (I::HOLDS_C) {
#pragma unroll
                for (int i = 0; i < WORDS; ++i) c[i] = *reinterpret_cast<const u32*>(&words[first + step * WORDS + i]);
            } else if constexpr (I::STAGES_C) {
                read_step(at, chunk, step, c);
            }
            take_terms<FUSED>(tile, at, chunk, step, c, sums);
        }
    }
    // Words of a chunk from words[first] on; they may take the place of the sums that they are made of, and of C's.
    template <bool FUSED, int COUNT>
    __device__ __forceinline__ void finish_chunk(const TilePlace& tile, const Spot& at, int chunk, T (&sums)[I::BN / 2], T (&words)[COUNT], int first) {
        if constexpr (!F::LONG) take_terms<FUSED>(tile, at, chunk, sums, words, first);
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; ++step) {
            if (!exists(chunk, step)) continue;
            T entries[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) entries[i] = F::LONG ? sums[first_of(chunk, step) + i] : ended(sums[first_of(chunk, step) + i]);
            u32 made[WORDS];
            pack_step(entries, made);
#pragma unroll
            for (int i = 0; i < WORDS; ++i) words[first + step * WORDS + i] = *reinterpret_cast<T*>(&made[i]);
        }
    }
    template <int COUNT>
    __device__ __forceinline__ void write_chunk(const TilePlace& tile, const Spot& at, u32 before, int chunk, const T (&words)[COUNT], int first) const {
        if constexpr (I::BULK_STORE) at.handover.wait_ready(before, chunk);
        __syncwarp();
#pragma unroll
        for (int step = 0; step < CHUNK_STEPS; ++step) {
            if (!exists(chunk, step)) continue;
            u32 made[WORDS];
#pragma unroll
            for (int i = 0; i < WORDS; ++i) made[i] = *reinterpret_cast<const u32*>(&words[first + step * WORDS + i]);
            stage_step(at, chunk, step, made);
        }
        if constexpr (I::BULK_STORE) {
            async_proxy_fence();
            __syncwarp();
            if (at.thread % 32 == 0) barrier_arrive(at.handover.staged(chunk));
        } else {
            __syncwarp();
            by_element(tile, at, chunk);
        }
    }
    __device__ __forceinline__ static u32 place(u32 buffers, int row, int byte) {
        return buffers + swizzled(row, byte / PIECE_BYTES) + byte % PIECE_BYTES;
    }
    // Each warp stores the 16 rows that it staged.
    __device__ __forceinline__ void by_element(const TilePlace& tile, const Spot& at, int chunk) const {
        const int warp = at.thread / 32;
        const i64 first_row = tile.row + CONSUMER_ROWS<I> * group, first_col = tile.col + chunk * G::COLUMNS;
        const int rows = int(least(p.m - first_row, i64(64)));
        const int columns = int(least(least(p.n - first_col, i64(G::COLUMNS)), i64(I::BN - chunk * G::COLUMNS)));
        D* const corner = static_cast<D*>(p.d) + tile.product * p.batch[0].d + first_row * p.d_row + first_col * p.d_col;
        const bool along_rows = p.d_col == 1;
#pragma unroll 4
        for (int i = at.thread % 32; i < 16 * G::COLUMNS; i += 32) {
            const int row = along_rows ? i / G::COLUMNS : i % 16, col = along_rows ? i % G::COLUMNS : i / 16;
            const int staged_row = Rows::nth(warp, row);
            if (staged_row < rows && col < columns)
                corner[staged_row * p.d_row + col * p.d_col] = staged<D>(place(at.buffers, staged_row, col * int(sizeof(D))));
        }
    }

    template <int COUNT> __device__ __forceinline__ void finish(const TilePlace& tile, T (&sums)[I::BN / 2], T (&words)[COUNT]) {
        if constexpr (MAY_FUSE)
            if (fuses()) return finish_as<true>(tile, sums, words);
        finish_as<false>(tile, sums, words);
    }
    template <bool FUSED, int COUNT> __device__ __forceinline__ void finish_as(const TilePlace& tile, T (&sums)[I::BN / 2], T (&words)[COUNT]) {
        const Spot at = spot();
        // C's narrower last chunk lies across the rows of several warps, which D's first chunk is about to replace.
        if constexpr (I::HOLDS_C && G::REUSED > 0 && G::TAIL_BYTES != 0 && !G::TURNED) warpgroup_barrier(group);
        at.terms.wait(count);
        if constexpr (F::LONG) {
#pragma unroll
            for (int chunk = 0; chunk < G::COUNT; ++chunk) {
                __syncwarp();    // else ptxas takes the terms of all chunks at once, which do not fit the registers
                take_terms<FUSED>(tile, at, chunk, sums, words, chunk * CHUNK_WORDS);
            }
            end_all(sums);
        }
#pragma unroll
        for (int chunk = 0; chunk < DIRECT; ++chunk) {
            T now[CHUNK_WORDS];
            finish_chunk<FUSED>(tile, at, chunk, sums, now, 0);
            write_chunk(tile, at, count, chunk, now, 0);
        }
#pragma unroll
        for (int chunk = DIRECT; chunk < G::COUNT; ++chunk) finish_chunk<FUSED>(tile, at, chunk, sums, words, (chunk - DIRECT) * CHUNK_WORDS);
        at.terms.release();
        ++count;
    }
    // Writes the tile that was finished last, if there is one.
    template <int COUNT> __device__ __forceinline__ void write(const TilePlace& tile, const T (&words)[COUNT]) const {
        if (count == 0) return;
        const Spot at = spot();
#pragma unroll
        for (int chunk = DIRECT; chunk < G::COUNT; ++chunk) write_chunk(tile, at, count - 1, chunk, words, (chunk - DIRECT) * CHUNK_WORDS);
    }
    __device__ __forceinline__ void tell_overflow() const {
        if constexpr (same<D, e4m3> || same<D, e5m2>)
            if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
    }
};
