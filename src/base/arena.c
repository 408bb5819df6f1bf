/*
 * The arena: pieces are cut from blocks that double up to a bound; everything goes at once.
 *
 * Under sanitizers a block holds exactly one piece, so that the tools see each piece's end and
 * every use after the arena is gone.
 */
#include "base.h"

#include <string.h>

#if defined(LAKE_SANITIZED) || defined(__SANITIZE_ADDRESS__)
#define ONE_PIECE_A_BLOCK true
#else
#define ONE_PIECE_A_BLOCK false
#endif

#define ALIGNMENT         ((size_t)16)
#define FIRST_BLOCK_BYTES ((size_t)4096)
#define LAST_BLOCK_BYTES  ((size_t)262144)

struct block {
    struct block *next;
    size_t size;
    size_t used;
    _Alignas(16) uint8_t bytes[];
};

struct base_arena {
    struct block *blocks; /* the first is the one pieces are cut from */
    size_t next_block_bytes;
    size_t max_bytes;
    size_t used_bytes; /* of all pieces, with their alignment */
    bool out_of_memory;
};

lake_status base_arena_new(size_t max_bytes, struct base_arena **out, struct lake_error *err)
{
    struct base_arena *arena = base_alloc(sizeof(*arena));
    if (arena == NULL)
        return base_fail_no_memory(err, sizeof(*arena));
    *arena = (struct base_arena){.next_block_bytes = FIRST_BLOCK_BYTES, .max_bytes = max_bytes};
    *out = arena;
    return LAKE_OK;
}

void base_arena_free(struct base_arena *arena)
{
    if (arena == NULL)
        return;
    struct block *block = arena->blocks;
    while (block != NULL) {
        struct block *next = block->next;
        base_free(block);
        block = next;
    }
    base_free(arena);
}

/* A new block of which `piece_bytes` are used. A piece that needs a block of its own goes behind
 * the block in use, whose rest stays useful. */
static void *cut_from_new_block(struct base_arena *arena, size_t piece_bytes)
{
    bool own = ONE_PIECE_A_BLOCK || piece_bytes > arena->next_block_bytes / 2;
    size_t room = own ? piece_bytes : arena->next_block_bytes;
    size_t block_bytes;
    if (!base_size_add(sizeof(struct block), room, &block_bytes))
        return NULL;
    struct block *block = base_alloc(block_bytes);
    if (block == NULL) {
        arena->out_of_memory = true;
        return NULL;
    }
    block->size = room;
    block->used = piece_bytes;
    if (own && arena->blocks != NULL) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    if (!own)
        arena->next_block_bytes = BASE_MIN(arena->next_block_bytes * 2, LAST_BLOCK_BYTES);
    return block->bytes;
}

void *base_arena_alloc(struct base_arena *arena, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX - ALIGNMENT)
        return NULL;
    size_t counted = BASE_ALIGN_UP(BASE_MAX(size_bytes, (size_t)1), ALIGNMENT);
    if (counted > arena->max_bytes - arena->used_bytes)
        return NULL;
    void *piece;
    struct block *first = arena->blocks;
    if (!ONE_PIECE_A_BLOCK && first != NULL && counted <= first->size - first->used) {
        piece = first->bytes + first->used;
        first->used += counted;
    } else {
        piece = cut_from_new_block(arena,
                                   ONE_PIECE_A_BLOCK ? BASE_MAX(size_bytes, (size_t)1) : counted);
        if (piece == NULL)
            return NULL;
    }
    arena->used_bytes += counted;
    return piece;
}

bool base_arena_out_of_memory(const struct base_arena *arena)
{
    return arena->out_of_memory;
}

void *base_arena_calloc_array(struct base_arena *arena, size_t count, size_t item_bytes)
{
    size_t size_bytes;
    if (!base_size_mul(count, item_bytes, &size_bytes))
        return NULL;
    void *piece = base_arena_alloc(arena, size_bytes);
    if (piece != NULL)
        memset(piece, 0, size_bytes);
    return piece;
}

char *base_arena_strndup(struct base_arena *arena, const char *data, size_t size)
{
    size_t size_bytes;
    if (!base_size_add(size, 1, &size_bytes))
        return NULL;
    char *copy = base_arena_alloc(arena, size_bytes);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}
