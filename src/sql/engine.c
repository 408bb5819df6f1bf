/*
 * The engine: a DuckDB instance, opened and locked down in the order that leaves no gap, and
 * another one when that has broken.
 *
 * Extensions are never fetched or loaded by themselves; then the catalog is attached; then limits;
 * then external access goes off and the configuration is locked. What these settings do not block,
 * the parser's gate (bridge_parse.cc, functions.c) does, and the check after binding stands behind
 * it.
 */
#include "sql_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TEMP_LIMIT_BYTES (UINT64_C(16) << 30)

void sql_engine_options_init(struct sql_engine_options *options)
{
    *options = (struct sql_engine_options){.temp_limit_bytes = DEFAULT_TEMP_LIMIT_BYTES};
}

static lake_status set_config(duckdb_config config, const char *name, const char *value,
                              struct lake_error *err)
{
    if (duckdb_set_config(config, name, value) != DuckDBSuccess) {
        return lake_fail(err, LAKE_INVALID_ARGUMENT, "the SQL engine refused %s = %s", name, value);
    }
    return LAKE_OK;
}

static lake_status set_config_u64(duckdb_config config, const char *name, uint64_t value,
                                  const char *unit, struct lake_error *err)
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)value, unit);
    return set_config(config, name, text, err);
}

static lake_status make_config(const struct sql_engine_options *options, duckdb_config *out,
                               struct lake_error *err)
{
    if (duckdb_create_config(out) != DuckDBSuccess) {
        return base_fail_no_memory(err, sizeof(*out));
    }
    uint64_t memory = options->memory_limit_bytes;
    if (memory == 0) {
        memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE) / 2;
    }
    uint64_t temp =
        options->temp_limit_bytes == 0 ? DEFAULT_TEMP_LIMIT_BYTES : options->temp_limit_bytes;
    const char *directory = options->temp_directory == NULL ? "" : options->temp_directory;
    lake_status status = set_config(*out, "autoinstall_known_extensions", "false", err);
    if (status == LAKE_OK) {
        status = set_config(*out, "autoload_known_extensions", "false", err);
    }
    if (status == LAKE_OK) {
        status = set_config(*out, "allow_persistent_secrets", "false", err);
    }
    if (status == LAKE_OK) {
        status = set_config(*out, "temp_directory", directory, err);
    }
    if (status == LAKE_OK && directory[0] != '\0') {
        status = set_config_u64(*out, "max_temp_directory_size", temp, "B", err);
    }
    if (status == LAKE_OK) {
        status = set_config_u64(*out, "memory_limit", memory, "B", err);
    }
    if (status == LAKE_OK && options->threads != 0) {
        status = set_config_u64(*out, "threads", options->threads, "", err);
    }
    return status;
}

lake_status sql_engine_run(duckdb_database database, const char *sql, struct lake_error *err)
{
    duckdb_connection connection = NULL;
    if (duckdb_connect(database, &connection) != DuckDBSuccess) {
        return lake_fail(err, LAKE_INTERNAL, "the SQL engine gave no connection");
    }
    duckdb_result result = {0};
    lake_status status = LAKE_OK;
    if (duckdb_query(connection, sql, &result) != DuckDBSuccess) {
        const char *message = duckdb_result_error(&result);
        status = lake_fail(err, LAKE_INVALID_ARGUMENT, "the SQL engine refused its settings: %s",
                           message == NULL ? "no message" : message);
    }
    duckdb_destroy_result(&result);
    duckdb_disconnect(&connection);
    return status;
}

static lake_status lock_down(duckdb_database database, struct lake_error *err)
{
    static const char *const STEPS[] = {
        "ATTACH '' AS " SQL_BRIDGE_CATALOG " (TYPE " SQL_BRIDGE_CATALOG ")",
        "SET GLOBAL TimeZone = 'UTC'",
        "SET GLOBAL enable_logging = false",
        "SET enable_external_access = false",
        "SET lock_configuration = true",
    };
    lake_status status = LAKE_OK;
    for (size_t i = 0; status == LAKE_OK && i < BASE_ARRAY_LEN(STEPS); i++) {
        status = sql_engine_run(database, STEPS[i], err);
    }
    return status == LAKE_OK ? sql_bridge_lock(database, err) : status;
}

lake_status sql_file_metadata_new(char **out, struct lake_error *err)
{
    struct ArrowBuffer buffer;
    if (ArrowMetadataBuilderInit(&buffer, NULL) != NANOARROW_OK) {
        return base_fail_no_memory(err, 0);
    }
    lake_status status = LAKE_OK;
    if (ArrowMetadataBuilderAppend(&buffer, ArrowCharView("ARROW:extension:name"),
                                   ArrowCharView(ARROW_FILE_EXTENSION_NAME)) != NANOARROW_OK ||
        ArrowMetadataBuilderAppend(&buffer, ArrowCharView("ARROW:extension:metadata"),
                                   ArrowCharView(ARROW_FILE_EXTENSION_METADATA)) != NANOARROW_OK) {
        status = base_fail_no_memory(err, 0);
    } else {
        *out = base_strndup((const char *)buffer.data, (size_t)buffer.size_bytes);
        if (*out == NULL) {
            status = base_fail_no_memory(err, (size_t)buffer.size_bytes);
        }
    }
    ArrowBufferReset(&buffer);
    return status;
}

/* ---- instances ---- */

void sql_instance_unref(struct sql_instance *instance)
{
    if (instance != NULL &&
        atomic_fetch_sub_explicit(&instance->references, 1, memory_order_acq_rel) == 1) {
        duckdb_close(&instance->database);
        base_free(instance);
    }
}

static lake_status open_instance(const struct sql_engine *engine, struct sql_instance **out,
                                 struct lake_error *err)
{
    struct sql_instance *instance = base_calloc_array(1, sizeof(*instance));
    if (instance == NULL) {
        return base_fail_no_memory(err, sizeof(*instance));
    }
    atomic_init(&instance->references, 1);
    duckdb_config config = NULL;
    char *message = NULL;
    lake_status status = make_config(&engine->options, &config, err);
    if (status != LAKE_OK) {
        goto out;
    }
    if (duckdb_open_ext(NULL, &instance->database, config, &message) != DuckDBSuccess) {
        status = lake_fail(err, LAKE_INTERNAL, "the SQL engine did not open: %s",
                           message == NULL ? "no message" : message);
        goto out;
    }
    struct sql_bridge_file_type file_type = {.extension_name = ARROW_FILE_EXTENSION_NAME,
                                             .metadata = engine->file_metadata};
    status = sql_bridge_install(instance->database, &file_type, err);
    if (status == LAKE_OK) {
        status = lock_down(instance->database, err);
    }
out:
    duckdb_free(message);
    duckdb_destroy_config(&config);
    if (status == LAKE_OK) {
        *out = instance;
    } else {
        sql_instance_unref(instance);
    }
    return status;
}

lake_status sql_engine_take(struct sql_engine *engine, struct sql_instance **out,
                            struct lake_error *err)
{
    struct sql_instance *broken = NULL;
    lake_status status = LAKE_OK;
    pthread_mutex_lock(&engine->lock);
    if (sql_bridge_is_broken(engine->current->database)) {
        struct sql_instance *fresh = NULL;
        status = open_instance(engine, &fresh, err);
        if (status == LAKE_OK) {
            broken = engine->current;
            engine->current = fresh;
        }
    }
    if (status == LAKE_OK) {
        *out = engine->current;
        atomic_fetch_add_explicit(&engine->current->references, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&engine->lock);
    if (broken != NULL) {
        base_log(BASE_LOG_ERROR, "the SQL engine broke at a statement and was replaced", NULL);
    }
    sql_instance_unref(broken);
    return status;
}

/* ---- the engine ---- */

lake_status sql_engine_open(const struct sql_engine_options *options, struct sql_engine **out,
                            struct lake_error *err)
{
    struct sql_engine *engine = base_calloc_array(1, sizeof(*engine));
    if (engine == NULL) {
        return base_fail_no_memory(err, sizeof(*engine));
    }
    pthread_mutex_init(&engine->lock, NULL);
    engine->options = *options;
    lake_status status = LAKE_OK;
    if (options->temp_directory != NULL) {
        engine->temp_directory = base_strdup(options->temp_directory);
        engine->options.temp_directory = engine->temp_directory;
        if (engine->temp_directory == NULL) {
            status = base_fail_no_memory(err, strlen(options->temp_directory) + 1);
        }
    }
    if (status == LAKE_OK) {
        status = sql_file_metadata_new(&engine->file_metadata, err);
    }
    if (status == LAKE_OK) {
        status = open_instance(engine, &engine->current, err);
    }
    if (status == LAKE_OK) {
        *out = engine;
    } else {
        sql_engine_free(engine);
    }
    return status;
}

void sql_engine_free(struct sql_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    sql_instance_unref(engine->current);
    pthread_mutex_destroy(&engine->lock);
    base_free(engine->file_metadata);
    base_free(engine->temp_directory);
    base_free(engine);
}
