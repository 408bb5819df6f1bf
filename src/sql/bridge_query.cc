/* Statements on their tables: a connection each, and the result as Arrow batches. */
#include "bridge_internal.h"

#include "duckdb/common/arrow/arrow_appender.hpp"
#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/main/client_config.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/main/prepared_statement.hpp"
#include "duckdb/main/prepared_statement_data.hpp"
#include "duckdb/main/stream_query_result.hpp"
#include "duckdb/main/valid_checker.hpp"

#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/query_node.hpp"
#include <chrono>
#include <thread>

using namespace sql_bridge;
using namespace duckdb;

struct sql_bridge_query {
    explicit sql_bridge_query(DuckDB &database) : connection(database)
    {
    }
    Connection connection;
    shared_ptr<LakeState> state;
    shared_ptr<LakeInfo> info;
    unique_ptr<PreparedStatement> prepared;
    unique_ptr<QueryResult> result;
    unique_ptr<DataChunk> chunk; /* fetched and not yet given out from `chunk_row` */
    idx_t chunk_row = 0;
    vector<uint64_t> row_bytes; /* of the chunk */
    bool ended = false;
    bool repeatable = false;
    bool failed = false;
    idx_t capacity_rows = 0; /* of the last batch, so that the next needs no growing */
    unordered_map<idx_t, const shared_ptr<ArrowTypeExtensionData>> extensions;
    ClientProperties properties;
    atomic<bool> cancelled{false};
};

namespace
{

LakeSchema &SchemaNamed(LakeState &state, Catalog &catalog, const string &name)
{
    auto found = state.Find(name);
    if (found != nullptr) {
        return *found;
    }
    CreateSchemaInfo info;
    info.schema = name;
    state.schemas.push_back(make_uniq<LakeSchema>(catalog, info));
    return *state.schemas.back();
}

/* Every base table of the statement becomes a full name in `lake`, so that nothing else can ever be
 * meant; one that the caller did not bind is refused here, by the name that the statement used. */
void Qualify(sql_bridge_statement &statement, LakeState &state, const string &default_schema)
{
    for (BaseTableRef &ref : statement.nodes) {
        auto schema_name = ref.schema_name.empty() ? default_schema : ref.schema_name;
        uint64_t version = 0;
        if (ref.at_clause) {
            Value value = ref.at_clause->ExpressionMutable()->Cast<ConstantExpression>().value;
            version = value.DefaultCastAs(LogicalType::UBIGINT).GetValue<uint64_t>();
        }
        auto schema = state.Find(schema_name);
        auto known = schema != nullptr &&
                     (ref.catalog_name.empty() || SameName(ref.catalog_name, SQL_BRIDGE_CATALOG)) &&
                     std::any_of(schema->tables.begin(), schema->tables.end(),
                                 [&](const unique_ptr<LakeTable> &table) {
                                     return SameName(table->name, ref.table_name) &&
                                            table->at_version == version;
                                 });
        if (!known) {
            auto name = ref.table_name;
            if (!ref.schema_name.empty()) {
                name = ref.schema_name + "." + name;
            }
            if (!ref.catalog_name.empty()) {
                name = ref.catalog_name + "." + name;
            }
            throw Refusal{LAKE_NOT_FOUND, "table " + name + " does not exist"};
        }
        ref.catalog_name = SQL_BRIDGE_CATALOG;
        ref.schema_name = schema_name;
    }
}

/* Arrow's intervals count nanoseconds: the engine's are wider, and it does not look. */
void CheckIntervals(Vector &vector, idx_t count)
{
    constexpr int64_t limit = NumericLimits<int64_t>::Maximum() / Interval::NANOS_PER_MICRO;
    UnifiedVectorFormat format;
    vector.ToUnifiedFormat(count, format);
    auto values = UnifiedVectorFormat::GetData<interval_t>(format);
    for (idx_t i = 0; i < count; i++) {
        auto at = format.sel->get_index(i);
        auto micros = format.validity.RowIsValid(at) ? values[at].micros : 0;
        if (micros > limit || micros < -limit) {
            throw OutOfRangeException("an interval of " + to_string(micros) +
                                      " microseconds is beyond the 292 years that an Arrow "
                                      "interval holds: select epoch_us of it instead");
        }
    }
}

/* Adds to out[i] what row i takes in an Arrow batch. At least a byte per value, so that the count
 * of nested values is bounded with the bytes (Q06). */
void AddRowBytes(Vector &vector_in, idx_t count, vector<uint64_t> &out)
{
    auto &type = vector_in.GetType();
    auto physical = type.InternalType();
    if (TypeIsConstantSize(physical)) {
        auto bytes = GetTypeIdSize(physical);
        if (physical == PhysicalType::INTERVAL) {
            CheckIntervals(vector_in, count);
        }
        for (idx_t i = 0; i < count; i++) {
            out[i] += bytes;
        }
        return;
    }
    if (physical == PhysicalType::VARCHAR) {
        UnifiedVectorFormat format;
        vector_in.ToUnifiedFormat(count, format);
        auto strings = UnifiedVectorFormat::GetData<string_t>(format);
        for (idx_t i = 0; i < count; i++) {
            auto at = format.sel->get_index(i);
            out[i] += 4 + (format.validity.RowIsValid(at) ? strings[at].GetSize() : 0);
        }
        return;
    }
    vector_in.Flatten(count);
    if (physical == PhysicalType::STRUCT) {
        for (auto &child : StructVector::GetEntries(vector_in)) {
            AddRowBytes(*child, count, out);
        }
        return;
    }
    auto is_list = physical == PhysicalType::LIST;
    auto &child = is_list ? ListVector::GetEntry(vector_in) : ArrayVector::GetEntry(vector_in);
    auto width = is_list ? 0 : ArrayType::GetSize(type);
    auto child_count = is_list ? ListVector::GetListSize(vector_in) : count * width;
    vector<uint64_t> child_bytes(child_count, 0);
    AddRowBytes(child, child_count, child_bytes);
    for (idx_t i = 0; i < count; i++) {
        idx_t from = i * width;
        idx_t length = width;
        if (is_list) {
            if (!FlatVector::Validity(vector_in).RowIsValid(i)) {
                out[i] += 4;
                continue;
            }
            auto &entry = FlatVector::GetData<list_entry_t>(vector_in)[i];
            from = entry.offset;
            length = entry.length;
        }
        out[i] += 4;
        for (idx_t j = from; j < from + length; j++) {
            out[i] += MaxValue<uint64_t>(child_bytes[j], 1);
        }
    }
}

/* The status of an error that ended the result. */
lake_status ResultStatus(sql_bridge_query &query, const ErrorData &error, struct lake_error *err)
{
    if (query.cancelled) {
        return lake_fail(err, LAKE_CANCELLED, "the statement was cancelled");
    }
    struct lake_error scan_error = {};
    if (query.state->TakeScanError(&scan_error)) {
        if (err != nullptr) {
            *err = scan_error;
        }
        return scan_error.code;
    }
    if (error.Type() == ExceptionType::INTERRUPT) { /* see CheckEngineThreads */
        return lake_fail(err, LAKE_INTERNAL,
                         "a thread of the engine failed; run the statement again to see why");
    }
    return Fail(err, error);
}

/* Between looks at tasks that the engine's threads have: a short one ends before this thread would
 * be asleep, a long one leaves it the processor. The engine's own loops spin. */
class Waiter
{
  public:
    void Wait()
    {
        if (looks++ < 32) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }
    void Reset()
    {
        looks = 0;
    }

  private:
    idx_t looks = 0;
};

/* Runs the statement's tasks here, beside the engine's threads, until it has rows. */
void RunToRows(PendingQueryResult &pending)
{
    Waiter waiter;
    while (true) {
        auto state = pending.ExecuteTask();
        if (PendingQueryResult::IsResultReady(state)) {
            return;
        }
        if (state == PendingExecutionResult::RESULT_NOT_READY) {
            waiter.Reset();
        } else {
            waiter.Wait();
        }
    }
}

/* An engine thread that fails interrupts all work on the statement, and this thread may see the
 * interrupt before the failure: throws what it was. */
void CheckEngineThreads(ClientContext &context)
{
    auto &executor = context.GetExecutor();
    if (executor.HasError()) {
        executor.GetError().Throw();
    }
}

/* The same, until its next chunk can be fetched or it has ended. */
void RunToChunk(ClientContext &context, QueryResult &result)
{
    if (result.type != QueryResultType::STREAM_RESULT) {
        return;
    }
    auto &stream = result.Cast<StreamQueryResult>();
    Waiter waiter;
    try {
        while (stream.IsOpen()) {
            auto state = stream.ExecuteTask();
            if (state == StreamExecutionResult::CHUNK_READY && !stream.HasError()) {
                CheckEngineThreads(context);
            }
            if (StreamQueryResult::IsChunkReady(state)) {
                return;
            }
            if (state == StreamExecutionResult::CHUNK_NOT_READY) {
                waiter.Reset();
            } else {
                waiter.Wait();
            }
        }
    } catch (InterruptException &) {
        CheckEngineThreads(context);
        throw;
    }
}

lake_status Start(sql_bridge_query &query, struct lake_error *err)
{
    vector<Value> none;
    auto pending = query.prepared->PendingQuery(none, true);
    if (pending->HasError()) {
        return ResultStatus(query, pending->GetErrorObject(), err);
    }
    /* Starting forgets an interrupt that came before it. */
    if (query.cancelled) {
        return lake_fail(err, LAKE_CANCELLED, "the statement was cancelled");
    }
    RunToRows(*pending);
    if (pending->HasError()) {
        return ResultStatus(query, pending->GetErrorObject(), err);
    }
    query.result = pending->Execute();
    if (query.result->HasError()) {
        return ResultStatus(query, query.result->GetErrorObject(), err);
    }
    return LAKE_OK;
}

/* Makes `chunk` hold unread rows, or sets `ended`. */
lake_status FillChunk(sql_bridge_query &query, struct lake_error *err)
{
    while (!query.ended && (!query.chunk || query.chunk_row == query.chunk->size())) {
        try {
            RunToChunk(*query.connection.context, *query.result);
        } catch (std::exception &failure) {
            return ResultStatus(query, ErrorData(failure), err);
        }
        if (!query.result->HasError()) {
            query.chunk = query.result->FetchRaw();
            query.chunk_row = 0;
        }
        if (query.result->HasError()) {
            return ResultStatus(query, query.result->GetErrorObject(), err);
        }
        if (query.cancelled) {
            return lake_fail(err, LAKE_CANCELLED, "the statement was cancelled");
        }
        if (!query.chunk || query.chunk->size() == 0) {
            query.ended = true;
            query.chunk.reset();
            break;
        }
        query.row_bytes.assign(query.chunk->size(), 0);
        for (auto &column : query.chunk->data) {
            AddRowBytes(column, query.chunk->size(), query.row_bytes);
        }
    }
    return LAKE_OK;
}

/* How many rows of the chunk still fit into a batch that holds `rows` and `bytes`. */
lake_status RowsThatFit(sql_bridge_query &query, const struct sql_bridge_batch_limits &limits,
                        int64_t rows, uint64_t *bytes, idx_t *take, struct lake_error *err)
{
    idx_t count = 0;
    auto left = query.chunk->size() - query.chunk_row;
    while (count < left && rows + NumericCast<int64_t>(count) < limits.rows) {
        auto row = query.row_bytes[query.chunk_row + count];
        if (row > NumericCast<uint64_t>(limits.offset_bytes)) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED,
                             "one row of the result is %llu bytes; at most %lld fit into an Arrow "
                             "array: select less of it",
                             (unsigned long long)row, (long long)limits.offset_bytes);
        }
        if (*bytes + row > NumericCast<uint64_t>(limits.bytes) && (rows > 0 || count > 0)) {
            break;
        }
        *bytes += row;
        count++;
    }
    *take = count;
    return LAKE_OK;
}

lake_status Next(sql_bridge_query &query, const struct sql_bridge_batch_limits &limits,
                 struct ArrowArray *out, bool *end, struct lake_error *err)
{
    if (query.cancelled) {
        return lake_fail(err, LAKE_CANCELLED, "the statement was cancelled");
    }
    if (!query.result) {
        auto status = Start(query, err);
        if (status != LAKE_OK) {
            return status;
        }
    }
    unique_ptr<ArrowAppender> appender;
    int64_t rows = 0;
    uint64_t bytes = 0;
    while (true) {
        auto status = FillChunk(query, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (query.ended) {
            break;
        }
        idx_t take = 0;
        status = RowsThatFit(query, limits, rows, &bytes, &take, err);
        if (status != LAKE_OK) {
            return status;
        }
        if (take == 0) {
            break;
        }
        if (!appender) {
            auto capacity = MaxValue<idx_t>(query.capacity_rows, take);
            appender = make_uniq<ArrowAppender>(query.result->types, capacity, query.properties,
                                                query.extensions);
        }
        appender->Append(*query.chunk, query.chunk_row, query.chunk_row + take,
                         query.chunk->size());
        query.chunk_row += take;
        rows += NumericCast<int64_t>(take);
        if (rows >= limits.rows || bytes >= NumericCast<uint64_t>(limits.bytes)) {
            break;
        }
    }
    *end = rows == 0;
    if (rows > 0) {
        query.capacity_rows = NumericCast<idx_t>(rows);
        *out = appender->Finalize();
    }
    return LAKE_OK;
}

lake_status Finish(unique_ptr<sql_bridge_query> query, struct sql_bridge_query **out,
                   struct lake_error *err)
{
    auto &context = *query->connection.context;
    if (query->prepared->HasError()) {
        return Fail(err, query->prepared->GetErrorObject());
    }
    auto &types = query->prepared->GetTypes();
    for (idx_t i = 0; i < types.size(); i++) {
        CheckResultType(query->prepared->GetNames()[i], types[i]);
    }
    query->properties = context.GetClientProperties();
    query->extensions = ArrowTypeExtensionData::GetExtensionTypes(context, types);
    *out = query.release();
    return LAKE_OK;
}

/* The engine bounds the result that waits to be fetched by what it sees of it: a string counts as
 * 16 bytes there, whatever its length. So that the strings themselves stay bounded too, tables of
 * long rows let fewer rows wait. */
void BoundWaitingRows(sql_bridge_query &query, uint64_t source_row_bytes)
{
    constexpr uint64_t WAITING_BYTES = 8 * 1024 * 1024;
    constexpr uint64_t LEAST = 64; /* the engine takes fractions of it, and none may be 0 */
    uint64_t seen = 0;
    for (auto &type : query.prepared->GetTypes()) {
        seen += GetTypeIdSize(type.InternalType());
    }
    auto &limit = ClientConfig::GetConfig(*query.connection.context).streaming_buffer_size;
    auto rows = WAITING_BYTES / MaxValue<uint64_t>(source_row_bytes, 1);
    limit = MinValue<uint64_t>(limit, MaxValue<uint64_t>(rows * seen, LEAST));
}

/* A plan keeps what its last run built, hash tables and sorted rows, until the next. */
void DropStates(PhysicalOperator &op)
{
    op.sink_state.reset();
    op.op_state.reset();
    for (auto &child : op.GetChildren()) {
        DropStates(const_cast<PhysicalOperator &>(child.get()));
    }
}

bool Rewind(sql_bridge_query &query)
{
    if (!query.repeatable || query.failed || query.cancelled || (query.result && !query.ended)) {
        return false;
    }
    auto &plan = query.prepared->data->physical_plan;
    if (!plan) {
        return false;
    }
    query.result.reset();
    query.chunk.reset();
    query.chunk_row = 0;
    query.ended = false;
    DropStates(plan->Root());
    return true;
}

} // namespace

lake_status sql_bridge_prepare(void *database, struct sql_bridge_statement *statement_in,
                               const struct sql_bridge_table *tables, size_t table_count,
                               const char *default_schema, struct sql_bridge_query **out,
                               struct lake_error *err)
{
    size_t moved = 0;
    auto status = Guarded(err, [&] {
        unique_ptr<sql_bridge_statement> statement(statement_in);
        auto query = make_uniq<sql_bridge_query>(DatabaseOf(database));
        auto &context = *query->connection.context;
        query->info = InfoOf(context);
        query->state = context.registered_state->GetOrCreate<LakeState>(STATE_NAME);
        uint64_t row_bytes = 0;
        context.RunFunctionInTransaction([&] {
            auto &catalog = Catalog::GetCatalog(context, SQL_BRIDGE_CATALOG);
            while (moved < table_count) {
                auto &table = tables[moved];
                auto source = make_shared_ptr<Source>(table.source);
                moved++;
                row_bytes = MaxValue<uint64_t>(
                    row_bytes, table.source.methods->row_bytes(table.source.object));
                auto &schema = SchemaNamed(*query->state, catalog, table.schema);
                schema.tables.push_back(MakeTable(context, catalog, schema, table,
                                                  std::move(source),
                                                  query->info->file_type.extension_name));
            }
        });
        Qualify(*statement, *query->state, default_schema);
        query->repeatable = statement->repeatable;
        query->prepared = query->connection.Prepare(std::move(statement->statement));
        if (!query->prepared->HasError()) {
            BoundWaitingRows(*query, row_bytes);
        }
        return Finish(std::move(query), out, err);
    });
    for (; moved < table_count; moved++) {
        tables[moved].source.methods->unref(tables[moved].source.object);
    }
    return status;
}

lake_status sql_bridge_prepare_trusted(void *database, const char *sql,
                                       struct sql_bridge_query **out, struct lake_error *err)
{
    return Guarded(err, [&] {
        auto query = make_uniq<sql_bridge_query>(DatabaseOf(database));
        auto &context = *query->connection.context;
        query->info = InfoOf(context);
        query->state = context.registered_state->GetOrCreate<LakeState>(STATE_NAME);
        query->prepared = query->connection.Prepare(sql);
        return Finish(std::move(query), out, err);
    });
}

lake_status sql_bridge_schema(const struct sql_bridge_query *query, struct ArrowSchema *out,
                              struct lake_error *err)
{
    return Guarded(err, [&] {
        auto &types = query->prepared->GetTypes();
        auto properties = query->properties;
        ArrowConverter::ToArrowSchema(out, types, query->prepared->GetNames(), properties);
        for (idx_t i = 0; i < types.size(); i++) {
            ApplyMarks(*out->children[i], types[i], query->info->file_type.metadata);
        }
        return LAKE_OK;
    });
}

lake_status sql_bridge_next(struct sql_bridge_query *query,
                            const struct sql_bridge_batch_limits *limits, struct ArrowArray *out,
                            bool *end, struct lake_error *err)
{
    auto status = Guarded(err, [&] { return Next(*query, *limits, out, end, err); });
    query->failed = query->failed || status != LAKE_OK;
    return status;
}

bool sql_bridge_is_broken(void *database)
{
    return ValidChecker::IsInvalidated(*DatabaseOf(database).instance);
}

void sql_bridge_break(void *database)
{
    (void)Guarded(nullptr, [&] {
        ValidChecker::Invalidate(*DatabaseOf(database).instance, "a fault was asked for");
        return LAKE_OK;
    });
}

bool sql_bridge_rewind(struct sql_bridge_query *query)
{
    bool again = false;
    (void)Guarded(nullptr, [&] {
        again = Rewind(*query);
        return LAKE_OK;
    });
    return again;
}

void sql_bridge_interrupt(struct sql_bridge_query *query)
{
    query->cancelled = true;
    query->connection.Interrupt();
}

void sql_bridge_query_free(struct sql_bridge_query *query)
{
    (void)Guarded(nullptr, [&] {
        delete query;
        return LAKE_OK;
    });
}
