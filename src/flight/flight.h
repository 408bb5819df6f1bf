/*
 * flight: Arrow Flight and Flight SQL messages, FlightData without copies, record-batch streams.
 *
 * Control messages (descriptors, infos, actions, Flight SQL commands) are plain structs here;
 * protobuf stays inside the folder. An `encode` appends the message's bytes to a buffer. A `decode`
 * fills a struct whose views and arrays live in the arena it is given, valid until that is freed.
 * Text fields are checked: valid UTF-8 without NUL. Decoding is bounded by the arena's maximum
 * (RESOURCE_EXHAUSTED) and answers INVALID_ARGUMENT to bytes that are not the message.
 *
 * Record batches travel in FlightData, framed by hand so that Arrow buffers reach the socket, and
 * received bodies reach the decoder, without a copy (facts of the protocol:
 * docs/folders/flight.md).
 *
 * Thread rule: functions are reentrant; a writer, reader or builder belongs to one thread at a
 * time.
 */
#ifndef FLIGHT_FLIGHT_H
#define FLIGHT_FLIGHT_H

#include <arrow/arrow.h>
#include <base/base.h>
#include <rpc/rpc.h>

/* ---- names of the protocol ---- */

#define FLIGHT_SERVICE                 "/arrow.flight.protocol.FlightService/"
#define FLIGHT_METHOD_HANDSHAKE        FLIGHT_SERVICE "Handshake"
#define FLIGHT_METHOD_LIST_FLIGHTS     FLIGHT_SERVICE "ListFlights"
#define FLIGHT_METHOD_GET_FLIGHT_INFO  FLIGHT_SERVICE "GetFlightInfo"
#define FLIGHT_METHOD_POLL_FLIGHT_INFO FLIGHT_SERVICE "PollFlightInfo"
#define FLIGHT_METHOD_GET_SCHEMA       FLIGHT_SERVICE "GetSchema"
#define FLIGHT_METHOD_DO_GET           FLIGHT_SERVICE "DoGet"
#define FLIGHT_METHOD_DO_PUT           FLIGHT_SERVICE "DoPut"
#define FLIGHT_METHOD_DO_EXCHANGE      FLIGHT_SERVICE "DoExchange"
#define FLIGHT_METHOD_DO_ACTION        FLIGHT_SERVICE "DoAction"
#define FLIGHT_METHOD_LIST_ACTIONS     FLIGHT_SERVICE "ListActions"

#define FLIGHT_ACTION_CANCEL_FLIGHT_INFO    "CancelFlightInfo"
#define FLIGHT_ACTION_RENEW_FLIGHT_ENDPOINT "RenewFlightEndpoint"
#define FLIGHT_ACTION_SET_SESSION_OPTIONS   "SetSessionOptions"
#define FLIGHT_ACTION_GET_SESSION_OPTIONS   "GetSessionOptions"
#define FLIGHT_ACTION_CLOSE_SESSION         "CloseSession"
#define FLIGHT_ACTION_CREATE_PREPARED       "CreatePreparedStatement"
#define FLIGHT_ACTION_CLOSE_PREPARED        "ClosePreparedStatement"
#define FLIGHT_ACTION_CANCEL_QUERY          "CancelQuery" /* deprecated, older JDBC drivers */

/* ---- control messages ---- */

enum flight_descriptor_type {
    FLIGHT_DESCRIPTOR_UNKNOWN = 0,
    FLIGHT_DESCRIPTOR_PATH = 1,
    FLIGHT_DESCRIPTOR_CMD = 2,
};
struct flight_descriptor {
    enum flight_descriptor_type type;
    struct lake_bytes command;   /* CMD; for Flight SQL an Any, see flight_sql_command_decode */
    const struct lake_str *path; /* PATH */
    size_t path_count;
};

struct flight_endpoint {
    struct lake_bytes ticket;
    const struct lake_str *locations; /* URIs; none: the server that was asked */
    size_t location_count;
    bool has_expiration;
    int64_t expiration_unix_ms;
    struct lake_bytes app_metadata;
};

struct flight_info {
    struct lake_bytes schema; /* encapsulated, as arrow_ipc_schema_to_bytes writes it */
    bool has_descriptor;
    struct flight_descriptor descriptor;
    const struct flight_endpoint *endpoints;
    size_t endpoint_count;
    int64_t total_records; /* -1: unknown */
    int64_t total_bytes;   /* -1: unknown */
    bool ordered;
    struct lake_bytes app_metadata;
};

struct flight_poll_info {
    const struct flight_info *info; /* NULL: none yet */
    bool has_descriptor;            /* absent: the query is complete */
    struct flight_descriptor descriptor;
    bool has_progress;
    double progress; /* 0..1 */
    bool has_expiration;
    int64_t expiration_unix_ms;
};

struct flight_action {
    struct lake_str type;
    struct lake_bytes body;
};
struct flight_action_type {
    struct lake_str type;
    struct lake_str description;
};
struct flight_handshake {
    uint64_t protocol_version;
    struct lake_bytes payload; /* of a request: may be a flight_basic_auth */
};
struct flight_basic_auth {
    struct lake_str username;
    struct lake_str password;
};

enum flight_cancel_status {
    FLIGHT_CANCEL_UNSPECIFIED = 0,
    FLIGHT_CANCEL_CANCELLED = 1,
    FLIGHT_CANCEL_CANCELLING = 2,
    FLIGHT_CANCEL_NOT_CANCELLABLE = 3,
};
enum flight_close_session_status {
    FLIGHT_CLOSE_SESSION_UNSPECIFIED = 0,
    FLIGHT_CLOSE_SESSION_CLOSED = 1,
    FLIGHT_CLOSE_SESSION_CLOSING = 2,
    FLIGHT_CLOSE_SESSION_NOT_CLOSEABLE = 3,
};
enum flight_set_session_error {
    FLIGHT_SET_SESSION_UNSPECIFIED = 0,
    FLIGHT_SET_SESSION_INVALID_NAME = 1,
    FLIGHT_SET_SESSION_INVALID_VALUE = 2,
    FLIGHT_SET_SESSION_ERROR = 3,
};

lake_status flight_descriptor_encode(const struct flight_descriptor *descriptor,
                                     struct base_buffer *out, struct lake_error *err);
lake_status flight_descriptor_decode(struct lake_bytes bytes, struct base_arena *arena,
                                     struct flight_descriptor *out, struct lake_error *err);
lake_status flight_info_encode(const struct flight_info *info, struct base_buffer *out,
                               struct lake_error *err);
lake_status flight_info_decode(struct lake_bytes bytes, struct base_arena *arena,
                               struct flight_info *out, struct lake_error *err);
lake_status flight_poll_info_encode(const struct flight_poll_info *info, struct base_buffer *out,
                                    struct lake_error *err);
lake_status flight_poll_info_decode(struct lake_bytes bytes, struct base_arena *arena,
                                    struct flight_poll_info *out, struct lake_error *err);
/* Ticket, SchemaResult, Result, PutResult and Criteria hold one bytes field: these are those. */
lake_status flight_ticket_encode(struct lake_bytes ticket, struct base_buffer *out,
                                 struct lake_error *err);
lake_status flight_ticket_decode(struct lake_bytes bytes, struct lake_bytes *ticket,
                                 struct lake_error *err); /* a view into `bytes` */
lake_status flight_schema_result_encode(struct lake_bytes schema, struct base_buffer *out,
                                        struct lake_error *err);
lake_status flight_schema_result_decode(struct lake_bytes bytes, struct lake_bytes *schema,
                                        struct lake_error *err);
lake_status flight_result_encode(struct lake_bytes body, struct base_buffer *out,
                                 struct lake_error *err);
lake_status flight_result_decode(struct lake_bytes bytes, struct lake_bytes *body,
                                 struct lake_error *err);
lake_status flight_put_result_encode(struct lake_bytes app_metadata, struct base_buffer *out,
                                     struct lake_error *err);
lake_status flight_put_result_decode(struct lake_bytes bytes, struct lake_bytes *app_metadata,
                                     struct lake_error *err);
lake_status flight_action_encode(const struct flight_action *action, struct base_buffer *out,
                                 struct lake_error *err);
lake_status flight_action_decode(struct lake_bytes bytes, struct base_arena *arena,
                                 struct flight_action *out, struct lake_error *err);
lake_status flight_action_type_encode(const struct flight_action_type *type,
                                      struct base_buffer *out, struct lake_error *err);
lake_status flight_action_type_decode(struct lake_bytes bytes, struct base_arena *arena,
                                      struct flight_action_type *out, struct lake_error *err);
lake_status flight_handshake_encode(const struct flight_handshake *handshake,
                                    struct base_buffer *out, struct lake_error *err);
lake_status flight_handshake_decode(struct lake_bytes bytes, struct base_arena *arena,
                                    struct flight_handshake *out, struct lake_error *err);
lake_status flight_basic_auth_encode(const struct flight_basic_auth *auth, struct base_buffer *out,
                                     struct lake_error *err);
lake_status flight_basic_auth_decode(struct lake_bytes bytes, struct base_arena *arena,
                                     struct flight_basic_auth *out, struct lake_error *err);
/* CancelFlightInfoRequest: the bytes of a FlightInfo. */
lake_status flight_cancel_request_encode(const struct flight_info *info, struct base_buffer *out,
                                         struct lake_error *err);
lake_status flight_cancel_request_decode(struct lake_bytes bytes, struct base_arena *arena,
                                         struct flight_info *out, struct lake_error *err);
lake_status flight_cancel_result_encode(enum flight_cancel_status status, struct base_buffer *out,
                                        struct lake_error *err);
lake_status flight_cancel_result_decode(struct lake_bytes bytes, enum flight_cancel_status *out,
                                        struct lake_error *err);
lake_status flight_close_session_result_encode(enum flight_close_session_status status,
                                               struct base_buffer *out, struct lake_error *err);
/* The option names of a SetSessionOptionsRequest (values are not looked at). */
lake_status flight_set_session_request_decode(struct lake_bytes bytes, struct base_arena *arena,
                                              const struct lake_str **names, size_t *count,
                                              struct lake_error *err);
/* Every name answered with the same error. count 0: success. */
lake_status flight_set_session_result_encode(const struct lake_str *names, size_t count,
                                             enum flight_set_session_error error,
                                             struct base_buffer *out, struct lake_error *err);

/* ---- Flight SQL commands ---- */

enum flight_sql_command_kind {
    FLIGHT_SQL_STATEMENT_QUERY = 1,
    FLIGHT_SQL_STATEMENT_UPDATE,
    FLIGHT_SQL_STATEMENT_INGEST,
    FLIGHT_SQL_STATEMENT_SUBSTRAIT_PLAN, /* recognised, not parsed */
    FLIGHT_SQL_PREPARED_QUERY,
    FLIGHT_SQL_PREPARED_UPDATE,
    FLIGHT_SQL_TICKET_STATEMENT_QUERY,
    FLIGHT_SQL_GET_SQL_INFO,
    FLIGHT_SQL_GET_CATALOGS,
    FLIGHT_SQL_GET_DB_SCHEMAS,
    FLIGHT_SQL_GET_TABLES,
    FLIGHT_SQL_GET_TABLE_TYPES,
    FLIGHT_SQL_GET_PRIMARY_KEYS,
    FLIGHT_SQL_GET_EXPORTED_KEYS,
    FLIGHT_SQL_GET_IMPORTED_KEYS,
    FLIGHT_SQL_GET_CROSS_REFERENCE,
    FLIGHT_SQL_GET_XDBC_TYPE_INFO,
    FLIGHT_SQL_CREATE_PREPARED_REQUEST,
    FLIGHT_SQL_CREATE_PREPARED_RESULT,
    FLIGHT_SQL_CLOSE_PREPARED_REQUEST,
    FLIGHT_SQL_CANCEL_QUERY_REQUEST, /* deprecated */
    FLIGHT_SQL_CANCEL_QUERY_RESULT,
};

/* An optional text field: absent and empty are different things (F06). */
struct flight_optional_str {
    bool present;
    struct lake_str value;
};

enum flight_sql_ingest_if_not_exist {
    FLIGHT_SQL_INGEST_NOT_EXIST_UNSPECIFIED = 0,
    FLIGHT_SQL_INGEST_NOT_EXIST_CREATE = 1,
    FLIGHT_SQL_INGEST_NOT_EXIST_FAIL = 2,
};
enum flight_sql_ingest_if_exists {
    FLIGHT_SQL_INGEST_EXISTS_UNSPECIFIED = 0,
    FLIGHT_SQL_INGEST_EXISTS_FAIL = 1,
    FLIGHT_SQL_INGEST_EXISTS_APPEND = 2,
    FLIGHT_SQL_INGEST_EXISTS_REPLACE = 3,
};

struct flight_sql_ingest {
    enum flight_sql_ingest_if_not_exist if_not_exist;
    enum flight_sql_ingest_if_exists if_exists;
    struct lake_str table;
    struct flight_optional_str catalog;
    struct flight_optional_str schema;
    bool temporary;
    struct lake_bytes transaction_id; /* data NULL: none */
    const struct lake_str *option_names;
    const struct lake_str *option_values;
    size_t option_count;
};

struct flight_sql_table_ref {
    struct flight_optional_str catalog;
    struct flight_optional_str db_schema;
    struct lake_str table;
};

struct flight_sql_command {
    enum flight_sql_command_kind kind;
    union {
        struct { /* STATEMENT_QUERY, STATEMENT_UPDATE, CREATE_PREPARED_REQUEST */
            struct lake_str query;
            struct lake_bytes transaction_id; /* data NULL: none */
        } statement;
        struct { /* PREPARED_QUERY, PREPARED_UPDATE, CLOSE_PREPARED_REQUEST, TICKET_STATEMENT_QUERY
                  */
            struct lake_bytes handle;
        } prepared;
        struct flight_sql_ingest ingest;
        struct { /* GET_SQL_INFO; none: all */
            const uint32_t *codes;
            size_t count;
        } sql_info;
        struct {
            struct flight_optional_str catalog;
            struct flight_optional_str db_schema_pattern;
        } db_schemas;
        struct {
            struct flight_optional_str catalog;
            struct flight_optional_str db_schema_pattern;
            struct flight_optional_str table_name_pattern;
            const struct lake_str *table_types; /* none: every type */
            size_t table_type_count;
            bool include_schema;
        } tables;
        struct flight_sql_table_ref keys; /* primary, exported, imported */
        struct {
            struct flight_sql_table_ref pk;
            struct flight_sql_table_ref fk;
        } cross_reference;
        struct {
            bool has_data_type;
            int32_t data_type;
        } xdbc_type_info;
        struct {
            struct lake_bytes handle;
            struct lake_bytes dataset_schema;   /* encapsulated; empty: not a query */
            struct lake_bytes parameter_schema; /* encapsulated; empty: no parameters */
        } create_prepared_result;
        struct {
            struct lake_bytes info; /* bytes of a FlightInfo */
        } cancel_query;
        enum flight_cancel_status cancel_result;
    } as;
};

/* True when `bytes` are an Any of a Flight SQL message (known to us or not). */
bool flight_sql_is_command(struct lake_bytes bytes);
/* From the Any in a descriptor's command, a ticket, an action's body or a result. UNIMPLEMENTED
 * names an Any of an unknown type; INVALID_ARGUMENT for everything that is not an Any. */
lake_status flight_sql_command_decode(struct lake_bytes bytes, struct base_arena *arena,
                                      struct flight_sql_command *out, struct lake_error *err);
/* To an Any; UNIMPLEMENTED for STATEMENT_SUBSTRAIT_PLAN. */
lake_status flight_sql_command_encode(const struct flight_sql_command *command,
                                      struct base_buffer *out, struct lake_error *err);
/* The bytes inside PutResult.app_metadata (not an Any). */
lake_status flight_sql_update_result_encode(int64_t record_count, struct base_buffer *out,
                                            struct lake_error *err);
lake_status flight_sql_update_result_decode(struct lake_bytes bytes, int64_t *record_count,
                                            struct lake_error *err);
lake_status flight_sql_prepared_put_result_encode(struct lake_bytes handle, struct base_buffer *out,
                                                  struct lake_error *err);

/* ---- Flight SQL metadata results ---- */

/* Exactly the schemas that the Flight SQL specification gives, nullability included. Kinds:
 * GET_CATALOGS, GET_DB_SCHEMAS, GET_TABLES, GET_TABLE_TYPES, GET_SQL_INFO, GET_XDBC_TYPE_INFO and
 * the four key commands; others are INVALID_ARGUMENT. */
lake_status flight_sql_result_schema(enum flight_sql_command_kind kind, bool include_table_schema,
                                     struct ArrowSchema *out, struct lake_error *err);
/* Codes of GetSqlInfo. */
enum flight_sql_info_code {
    FLIGHT_SQL_INFO_SERVER_NAME = 0,
    FLIGHT_SQL_INFO_SERVER_VERSION = 1,
    FLIGHT_SQL_INFO_ARROW_VERSION = 2,
    FLIGHT_SQL_INFO_READ_ONLY = 3,
    FLIGHT_SQL_INFO_SQL = 4,
    FLIGHT_SQL_INFO_SUBSTRAIT = 5,
    FLIGHT_SQL_INFO_SUBSTRAIT_MIN_VERSION = 6,
    FLIGHT_SQL_INFO_SUBSTRAIT_MAX_VERSION = 7,
    FLIGHT_SQL_INFO_TRANSACTION = 8,
    FLIGHT_SQL_INFO_CANCEL = 9,
    FLIGHT_SQL_INFO_BULK_INGESTION = 10,
    FLIGHT_SQL_INFO_INGEST_TRANSACTIONS = 11,
    FLIGHT_SQL_INFO_STATEMENT_TIMEOUT = 100,
    FLIGHT_SQL_INFO_TRANSACTION_TIMEOUT = 101,
    FLIGHT_SQL_INFO_DDL_CATALOG = 500,
    FLIGHT_SQL_INFO_DDL_SCHEMA = 501,
    FLIGHT_SQL_INFO_DDL_TABLE = 502,
    FLIGHT_SQL_INFO_IDENTIFIER_CASE = 503,
    FLIGHT_SQL_INFO_IDENTIFIER_QUOTE_CHAR = 504,
    FLIGHT_SQL_INFO_QUOTED_IDENTIFIER_CASE = 505,
    FLIGHT_SQL_INFO_ALL_TABLES_SELECTABLE = 506,
    FLIGHT_SQL_INFO_NULL_ORDERING = 507,
    FLIGHT_SQL_INFO_KEYWORDS = 508,
    FLIGHT_SQL_INFO_NUMERIC_FUNCTIONS = 509,
    FLIGHT_SQL_INFO_STRING_FUNCTIONS = 510,
    FLIGHT_SQL_INFO_SYSTEM_FUNCTIONS = 511,
    FLIGHT_SQL_INFO_DATETIME_FUNCTIONS = 512,
    FLIGHT_SQL_INFO_SEARCH_STRING_ESCAPE = 513,
    FLIGHT_SQL_INFO_EXTRA_NAME_CHARACTERS = 514,
    FLIGHT_SQL_INFO_COLUMN_ALIASING = 515,
    FLIGHT_SQL_INFO_NULL_PLUS_NULL_IS_NULL = 516,
    FLIGHT_SQL_INFO_CONVERT = 517,
    FLIGHT_SQL_INFO_TABLE_CORRELATION_NAMES = 518,
    FLIGHT_SQL_INFO_DIFFERENT_TABLE_CORRELATION_NAMES = 519,
    FLIGHT_SQL_INFO_EXPRESSIONS_IN_ORDER_BY = 520,
    FLIGHT_SQL_INFO_ORDER_BY_UNRELATED = 521,
    FLIGHT_SQL_INFO_GROUP_BY = 522,
    FLIGHT_SQL_INFO_LIKE_ESCAPE_CLAUSE = 523,
    FLIGHT_SQL_INFO_NON_NULLABLE_COLUMNS = 524,
    FLIGHT_SQL_INFO_GRAMMAR = 525,
    FLIGHT_SQL_INFO_ANSI92_LEVEL = 526,
    FLIGHT_SQL_INFO_INTEGRITY_ENHANCEMENT = 527,
    FLIGHT_SQL_INFO_OUTER_JOINS_LEVEL = 528,
    FLIGHT_SQL_INFO_SCHEMA_TERM = 529,
    FLIGHT_SQL_INFO_PROCEDURE_TERM = 530,
    FLIGHT_SQL_INFO_CATALOG_TERM = 531,
    FLIGHT_SQL_INFO_CATALOG_AT_START = 532,
    FLIGHT_SQL_INFO_SCHEMAS_SUPPORTED_ACTIONS = 533,
    FLIGHT_SQL_INFO_CATALOGS_SUPPORTED_ACTIONS = 534,
    FLIGHT_SQL_INFO_POSITIONED_COMMANDS = 535,
    FLIGHT_SQL_INFO_SELECT_FOR_UPDATE = 536,
    FLIGHT_SQL_INFO_STORED_PROCEDURES = 537,
    FLIGHT_SQL_INFO_SUBQUERIES = 538,
    FLIGHT_SQL_INFO_CORRELATED_SUBQUERIES = 539,
    FLIGHT_SQL_INFO_UNIONS = 540,
    FLIGHT_SQL_INFO_MAX_BINARY_LITERAL_LENGTH = 541,
    FLIGHT_SQL_INFO_MAX_CHAR_LITERAL_LENGTH = 542,
    FLIGHT_SQL_INFO_MAX_COLUMN_NAME_LENGTH = 543,
    FLIGHT_SQL_INFO_MAX_COLUMNS_IN_GROUP_BY = 544,
    FLIGHT_SQL_INFO_MAX_COLUMNS_IN_INDEX = 545,
    FLIGHT_SQL_INFO_MAX_COLUMNS_IN_ORDER_BY = 546,
    FLIGHT_SQL_INFO_MAX_COLUMNS_IN_SELECT = 547,
    FLIGHT_SQL_INFO_MAX_COLUMNS_IN_TABLE = 548,
    FLIGHT_SQL_INFO_MAX_CONNECTIONS = 549,
    FLIGHT_SQL_INFO_MAX_CURSOR_NAME_LENGTH = 550,
    FLIGHT_SQL_INFO_MAX_INDEX_LENGTH = 551,
    FLIGHT_SQL_INFO_MAX_DB_SCHEMA_NAME_LENGTH = 552,
    FLIGHT_SQL_INFO_MAX_PROCEDURE_NAME_LENGTH = 553,
    FLIGHT_SQL_INFO_MAX_CATALOG_NAME_LENGTH = 554,
    FLIGHT_SQL_INFO_MAX_ROW_SIZE = 555,
    FLIGHT_SQL_INFO_MAX_ROW_SIZE_INCLUDES_BLOBS = 556,
    FLIGHT_SQL_INFO_MAX_STATEMENT_LENGTH = 557,
    FLIGHT_SQL_INFO_MAX_STATEMENTS = 558,
    FLIGHT_SQL_INFO_MAX_TABLE_NAME_LENGTH = 559,
    FLIGHT_SQL_INFO_MAX_TABLES_IN_SELECT = 560,
    FLIGHT_SQL_INFO_MAX_USERNAME_LENGTH = 561,
    FLIGHT_SQL_INFO_DEFAULT_TRANSACTION_ISOLATION = 562,
    FLIGHT_SQL_INFO_TRANSACTIONS = 563,
    FLIGHT_SQL_INFO_TRANSACTION_ISOLATION_LEVELS = 564,
    FLIGHT_SQL_INFO_DDL_CAUSES_COMMIT = 565,
    FLIGHT_SQL_INFO_DDL_IN_TRANSACTIONS_IGNORED = 566,
    FLIGHT_SQL_INFO_RESULT_SET_TYPES = 567,
    FLIGHT_SQL_INFO_CONCURRENCIES_UNSPECIFIED = 568,
    FLIGHT_SQL_INFO_CONCURRENCIES_FORWARD_ONLY = 569,
    FLIGHT_SQL_INFO_CONCURRENCIES_SCROLL_SENSITIVE = 570,
    FLIGHT_SQL_INFO_CONCURRENCIES_SCROLL_INSENSITIVE = 571,
    FLIGHT_SQL_INFO_BATCH_UPDATES = 572,
    FLIGHT_SQL_INFO_SAVEPOINTS = 573,
    FLIGHT_SQL_INFO_NAMED_PARAMETERS = 574,
    FLIGHT_SQL_INFO_LOCATORS_UPDATE_COPY = 575,
    FLIGHT_SQL_INFO_STORED_FUNCTIONS_CALL_SYNTAX = 576,
};
/* Builds the rows of a GetSqlInfo result (a dense union), in the order they are added. */
struct flight_sql_info_builder;
lake_status flight_sql_info_builder_new(struct flight_sql_info_builder **out,
                                        struct lake_error *err);
void flight_sql_info_builder_free(struct flight_sql_info_builder *builder);
lake_status flight_sql_info_add_string(struct flight_sql_info_builder *builder, uint32_t code,
                                       struct lake_str value, struct lake_error *err);
lake_status flight_sql_info_add_bool(struct flight_sql_info_builder *builder, uint32_t code,
                                     bool value, struct lake_error *err);
lake_status flight_sql_info_add_int64(struct flight_sql_info_builder *builder, uint32_t code,
                                      int64_t value, struct lake_error *err);
lake_status flight_sql_info_add_bitmask(struct flight_sql_info_builder *builder, uint32_t code,
                                        int32_t value, struct lake_error *err);
lake_status flight_sql_info_add_string_list(struct flight_sql_info_builder *builder, uint32_t code,
                                            const struct lake_str *values, size_t count,
                                            struct lake_error *err);
/* An empty int32 -> list<int32> map, the only one that Lake needs (SQL_SUPPORTS_CONVERT). */
lake_status flight_sql_info_add_empty_map(struct flight_sql_info_builder *builder, uint32_t code,
                                          struct lake_error *err);
/* Moves the rows out; the builder can only be freed afterwards. */
lake_status flight_sql_info_builder_finish(struct flight_sql_info_builder *builder,
                                           struct ArrowArray *out, struct lake_error *err);

/* ---- Any ---- */

/* Lake's own commands travel as google.protobuf.Any, too, under type URLs such as
 * "type.lake/AppendCommand". Appends the Any around `value`. */
lake_status flight_any_pack(const char *type_url, struct lake_bytes value, struct base_buffer *out,
                            struct lake_error *err);
/* False when `bytes` are not an Any of exactly that type; `value` is a view into `bytes`. */
bool flight_any_unpack(struct lake_bytes bytes, const char *type_url, struct lake_bytes *value);

/* ---- calls ---- */

/* One DoAction: `reply` is cleared and receives the first result's body, empty when there is none;
 * RESOURCE_EXHAUSTED above its maximum. */
lake_status flight_do_action(struct rpc_channel *channel, const struct rpc_header *headers,
                             size_t header_count, int64_t deadline_ms,
                             const struct flight_action *action, struct base_buffer *reply,
                             struct lake_error *err);

/* ---- FlightData ---- */

/* Views into one received message. */
struct flight_data {
    bool has_descriptor;
    struct lake_bytes descriptor; /* bytes of a FlightDescriptor */
    struct lake_bytes header;     /* bare IPC flatbuffer; empty: a message of metadata only */
    struct lake_bytes app_metadata;
    struct lake_bytes body;
};
/* Each field at most once; unknown fields are skipped. */
lake_status flight_data_decode(struct lake_bytes message, struct flight_data *out,
                               struct lake_error *err);

/* Where a stream's messages go and come from: a server's call or a client's. */
struct flight_sender {
    lake_status (*send)(void *context, struct rpc_part *parts, size_t part_count,
                        struct lake_error *err);
    void *context;
};
struct flight_receiver {
    lake_status (*receive)(void *context, struct rpc_payload *out, bool *end,
                           struct lake_error *err);
    void *context;
};
struct flight_sender flight_sender_of_call(struct rpc_call *call);
struct flight_sender flight_sender_of_client(struct rpc_client_call *call);
struct flight_receiver flight_receiver_of_call(struct rpc_call *call);
struct flight_receiver flight_receiver_of_client(struct rpc_client_call *call);

/* Sends a small message (any control message) in one part, copied. */
lake_status flight_send_bytes(struct flight_sender sender, struct lake_bytes message,
                              struct lake_error *err);
/* Sends one FlightData around an IPC message; takes the message over in every case. Buffers of its
 * batch are borrowed until the transport has let go of them. `descriptor`: bytes of a
 * FlightDescriptor or empty. */
lake_status flight_send_ipc(struct flight_sender sender, struct arrow_ipc_message *message,
                            struct lake_bytes descriptor, struct lake_bytes app_metadata,
                            struct lake_error *err);

/* ---- record-batch streams ---- */

struct flight_stream_options {
    uint64_t target_batch_bytes; /* a larger batch is sent in slices; default 2 MiB */
    int64_t max_batch_rows;      /* default 65,536 */
    uint64_t max_message_bytes;  /* default 16 MiB: what ADBC accepts; a row above it fails (F01) */
};
void flight_stream_options_init(struct flight_stream_options *options);

struct flight_stream_writer;
/* Sends nothing yet. `options` NULL: defaults. The schema is copied. */
lake_status flight_stream_writer_new(struct flight_sender sender, const struct ArrowSchema *schema,
                                     const struct flight_stream_options *options,
                                     struct flight_stream_writer **out, struct lake_error *err);
void flight_stream_writer_free(struct flight_stream_writer *writer);
/* The schema message, first and once. `descriptor` opens a DoPut; empty for a DoGet. */
lake_status flight_stream_writer_begin(struct flight_stream_writer *writer,
                                       struct lake_bytes descriptor, struct lake_bytes app_metadata,
                                       struct lake_error *err);
/* A batch, in slices if it is large; returns when the transport took the last one. An empty batch
 * sends a message without rows. RESOURCE_EXHAUSTED names the limit when one row does not fit. */
lake_status flight_stream_writer_write(struct flight_stream_writer *writer,
                                       struct arrow_batch *batch, struct lake_error *err);
/* A message of metadata only. */
lake_status flight_stream_writer_write_metadata(struct flight_stream_writer *writer,
                                                struct lake_bytes app_metadata,
                                                struct lake_error *err);
uint64_t flight_stream_writer_sent_rows(const struct flight_stream_writer *writer);

struct flight_stream_reader;
/* `limits` NULL: defaults. Receives nothing yet. */
lake_status flight_stream_reader_new(struct flight_receiver receiver,
                                     const struct arrow_ipc_limits *limits,
                                     struct flight_stream_reader **out, struct lake_error *err);
void flight_stream_reader_free(struct flight_stream_reader *reader);
/* Receives the first message if that has not happened. The descriptor's bytes of it (empty: none),
 * valid as long as the reader. A stream that ends at once is INVALID_ARGUMENT. */
lake_status flight_stream_reader_descriptor(struct flight_stream_reader *reader,
                                            struct lake_bytes *out, struct lake_error *err);
/* Receives up to the schema message. Borrowed, valid as long as the reader. */
lake_status flight_stream_reader_schema(struct flight_stream_reader *reader,
                                        const struct ArrowSchema **out, struct lake_error *err);
/* The next batch (zero-copy over the message where it is aligned); *end at the end of the stream,
 * with `out` untouched. One message is held at a time. */
lake_status flight_stream_reader_next(struct flight_stream_reader *reader, struct ArrowArray *out,
                                      bool *end, struct lake_error *err);
/* app_metadata of the message that gave the last batch or the schema; valid until the next call. */
struct lake_bytes flight_stream_reader_app_metadata(const struct flight_stream_reader *reader);
/* As an ArrowArrayStream that owns the reader (freed with the stream). `on_release` (may be NULL)
 * runs after that. get_last_error gives the message; on failure the reader is freed, too. */
lake_status flight_stream_reader_export(struct flight_stream_reader *reader,
                                        void (*on_release)(void *context), void *context,
                                        struct ArrowArrayStream *out, struct lake_error *err);

#endif
