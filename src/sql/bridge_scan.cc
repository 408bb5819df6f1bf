/* The scan under the tables of `lake` (SQL-4). */
#include "bridge_internal.h"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/partition_stats.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_operator_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/filter/list.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/storage/table_storage_info.hpp"

namespace sql_bridge
{
namespace
{

const char *const SCAN_NAME = "lake_scan";

/* A run of one value this long ends a vector of rows, so that the engine takes it as a constant:
 * hashes it once, compares it once. Shorter vectors than this would cost more than that saves. */
constexpr idx_t RUN_ROWS = STANDARD_VECTOR_SIZE / 4;

/* Rows that are grouped by columns of few and long runs are aggregated run by run, without a hash
 * table: so long on average, and so few, because each takes some microseconds and some memory. */
constexpr idx_t PARTITION_ROWS = STANDARD_VECTOR_SIZE / 2;
constexpr idx_t MAX_PARTITIONS = 1 << 16;
constexpr idx_t TASK_PARTITIONS = 1 << 20; /* more than a task has rows */

struct NullHint {
    idx_t column;
    enum sql_filter_op op;
};

struct ScanBind : public TableFunctionData {
    ScanBind(LakeTable &table) : table(table), source(table.source)
    {
    }
    LakeTable &table;
    shared_ptr<Source> source;
    vector<NullHint> hints; /* IS [NOT] NULL conjuncts that stay in the plan above the scan */
    /* Columns of which every vector holds one value: the engine asks with the plan half made, and
     * only reads what it asks with. */
    mutable vector<column_t> partitioned;

    unique_ptr<FunctionData> Copy() const override
    {
        auto copy = make_uniq<ScanBind>(table);
        copy->hints = hints;
        copy->partitioned = partitioned;
        return std::move(copy);
    }
    bool Equals(const FunctionData &other) const override
    {
        return &table == &other.Cast<ScanBind>().table;
    }
};

/* A constant in the form of the source's filters; false when the column's Arrow form and the
 * engine's differ, so that the scan must not compare. */
bool ToScanValue(const Value &value, const ArrowType &arrow, struct sql_value &out)
{
    if (value.IsNull()) {
        return false;
    }
    switch (value.type().id()) {
    case LogicalTypeId::BOOLEAN:
    case LogicalTypeId::TINYINT:
    case LogicalTypeId::SMALLINT:
    case LogicalTypeId::INTEGER:
    case LogicalTypeId::BIGINT:
    case LogicalTypeId::UTINYINT:
    case LogicalTypeId::USMALLINT:
    case LogicalTypeId::UINTEGER:
        out.kind = SQL_VALUE_INT64;
        out.i64 = value.GetValue<int64_t>();
        return true;
    case LogicalTypeId::UBIGINT:
        out.kind = SQL_VALUE_UINT64;
        out.u64 = value.GetValue<uint64_t>();
        return true;
    case LogicalTypeId::FLOAT:
        out.kind = SQL_VALUE_DOUBLE;
        out.f64 = value.GetValueUnsafe<float>();
        return true;
    case LogicalTypeId::DOUBLE:
        out.kind = SQL_VALUE_DOUBLE;
        out.f64 = value.GetValueUnsafe<double>();
        return true;
    case LogicalTypeId::DATE:
        if (arrow.HasDictionary() ||
            arrow.GetTypeInfo<ArrowDateTimeInfo>().GetDateTimeType() != ArrowDateTimeType::DAYS) {
            return false;
        }
        out.kind = SQL_VALUE_INT64;
        out.i64 = value.GetValueUnsafe<date_t>().days;
        return true;
    case LogicalTypeId::TIMESTAMP:
    case LogicalTypeId::TIMESTAMP_SEC:
    case LogicalTypeId::TIMESTAMP_MS:
    case LogicalTypeId::TIMESTAMP_NS:
        out.kind = SQL_VALUE_INT64;
        out.i64 = value.GetValueUnsafe<timestamp_t>().value;
        return true;
    case LogicalTypeId::TIMESTAMP_TZ:
        if (arrow.HasDictionary() || arrow.GetTypeInfo<ArrowDateTimeInfo>().GetDateTimeType() !=
                                         ArrowDateTimeType::MICROSECONDS) {
            return false;
        }
        out.kind = SQL_VALUE_INT64;
        out.i64 = value.GetValueUnsafe<timestamp_t>().value;
        return true;
    case LogicalTypeId::VARCHAR:
    case LogicalTypeId::BLOB: {
        auto &text = StringValue::Get(value);
        out.kind = SQL_VALUE_BYTES;
        out.bytes.data = const_data_ptr_cast(text.data());
        out.bytes.size = text.size();
        return true;
    }
    default:
        return false;
    }
}

bool ToScanOp(ExpressionType type, enum sql_filter_op &out)
{
    switch (type) {
    case ExpressionType::COMPARE_EQUAL:
        out = SQL_FILTER_EQ;
        return true;
    case ExpressionType::COMPARE_NOTEQUAL:
        out = SQL_FILTER_NE;
        return true;
    case ExpressionType::COMPARE_LESSTHAN:
        out = SQL_FILTER_LT;
        return true;
    case ExpressionType::COMPARE_LESSTHANOREQUALTO:
        out = SQL_FILTER_LE;
        return true;
    case ExpressionType::COMPARE_GREATERTHAN:
        out = SQL_FILTER_GT;
        return true;
    case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
        out = SQL_FILTER_GE;
        return true;
    default:
        return false;
    }
}

/* The engine's filters of one scan, taken apart into conjuncts for the source. `leaves` remembers
 * the mandatory ones, because the engine no longer evaluates them. */
class FilterPush
{
  public:
    struct Leaf {
        const TableFilter *filter;
        idx_t position;         /* among the scan's column ids */
        optional_idx pushed_at; /* index among `filters` */
    };
    vector<Leaf> leaves;
    vector<struct sql_filter> filters;

    void Add(const TableFilter &filter, idx_t position, idx_t column, const ArrowType &arrow,
             bool mandatory)
    {
        switch (filter.filter_type) {
        case TableFilterType::CONJUNCTION_AND:
            for (auto &child : filter.Cast<ConjunctionAndFilter>().child_filters) {
                Add(*child, position, column, arrow, mandatory);
            }
            return;
        case TableFilterType::OPTIONAL_FILTER: {
            auto &optional = filter.Cast<OptionalFilter>();
            if (optional.child_filter) {
                Add(*optional.child_filter, position, column, arrow, false);
            }
            return;
        }
        case TableFilterType::DYNAMIC_FILTER: {
            auto &data = filter.Cast<DynamicFilter>().filter_data;
            if (data && data->initialized) {
                lock_guard<mutex> guard(data->lock);
                if (data->filter) {
                    copies.push_back(data->filter->Copy()); /* it may change behind us */
                    Leaf_(*copies.back(), position, column, arrow, false);
                }
            }
            if (mandatory) {
                leaves.push_back({&filter, position, optional_idx()});
            }
            return;
        }
        default:
            Leaf_(filter, position, column, arrow, mandatory);
        }
    }

    void AddNull(idx_t column, enum sql_filter_op op)
    {
        filters.push_back({UnsafeNumericCast<uint32_t>(column), op, nullptr, 0});
    }

  private:
    void Leaf_(const TableFilter &filter, idx_t position, idx_t column, const ArrowType &arrow,
               bool mandatory)
    {
        Leaf leaf{&filter, position, optional_idx()};
        auto at = filters.size();
        if (Push(filter, column, arrow)) {
            leaf.pushed_at = at;
        }
        if (mandatory) {
            leaves.push_back(leaf);
        }
    }

    bool Push(const TableFilter &filter, idx_t column, const ArrowType &arrow)
    {
        auto result = make_uniq<vector<struct sql_value>>();
        enum sql_filter_op op = SQL_FILTER_IN;
        switch (filter.filter_type) {
        case TableFilterType::IS_NULL:
            AddNull(column, SQL_FILTER_IS_NULL);
            return true;
        case TableFilterType::IS_NOT_NULL:
            AddNull(column, SQL_FILTER_IS_NOT_NULL);
            return true;
        case TableFilterType::CONSTANT_COMPARISON: {
            auto &comparison = filter.Cast<ConstantFilter>();
            struct sql_value value;
            if (!ToScanOp(comparison.comparison_type, op) ||
                !ToScanValue(comparison.constant, arrow, value)) {
                return false;
            }
            result->push_back(value);
            break;
        }
        case TableFilterType::IN_FILTER:
            for (auto &constant : filter.Cast<InFilter>().values) {
                struct sql_value value;
                if (!ToScanValue(constant, arrow, value)) {
                    return false;
                }
                result->push_back(value);
            }
            break;
        default:
            return false;
        }
        filters.push_back(
            {UnsafeNumericCast<uint32_t>(column), op, result->data(), result->size()});
        values.push_back(std::move(result));
        return true;
    }

    vector<unique_ptr<vector<struct sql_value>>> values;
    vector<unique_ptr<TableFilter>> copies;
};

struct ScanGlobal : public GlobalTableFunctionState {
    ~ScanGlobal() override
    {
        if (scan != nullptr) {
            source->source.methods->scan_free(scan);
        }
    }
    idx_t MaxThreads() const override
    {
        return max_threads;
    }

    shared_ptr<Source> source;
    shared_ptr<LakeState> state;
    void *scan = nullptr;
    idx_t max_threads = 1;
    const arrow_column_map_t *arrow = nullptr;
    vector<column_t> columns;              /* of a batch; COLUMN_IDENTIFIER_EMPTY has no array */
    vector<struct sql_run_layout> layouts; /* of `columns` */
    vector<LogicalType> types;             /* of `columns` */
    vector<idx_t> output_columns; /* positions in `columns`, when not all of them leave the scan */
    vector<column_t> asked;       /* as the engine numbers them */
    vector<column_t> partitioned; /* ScanBind's */
    vector<idx_t> partitions;     /* of these, the positions in `columns` */
    unique_ptr<Expression> residual; /* over `columns`: what the source did not apply */
};

struct ScanLocal : public LocalTableFunctionState {
    ScanLocal(ClientContext &context, ScanGlobal &global)
        : global(global), arrow_state(make_uniq<ArrowArrayWrapper>(), context)
    {
        if (global.residual) {
            executor = make_uniq<ExpressionExecutor>(context, *global.residual);
            selection.Initialize(STANDARD_VECTOR_SIZE);
        }
        if (global.residual || !global.output_columns.empty()) {
            all_columns.Initialize(context, global.types);
        }
    }
    ~ScanLocal() override
    {
        FreeTask();
    }
    void FreeTask()
    {
        if (task != nullptr) {
            global.source->source.methods->task_free(task);
            task = nullptr;
        }
    }

    ScanGlobal &global;
    void *task = nullptr;
    idx_t batch_index = 0;
    ArrowScanLocalState arrow_state;
    vector<idx_t> runs;      /* by column, from the next row on */
    vector<Value> partition; /* the values of `partitioned` */
    DataChunk all_columns;
    unique_ptr<ExpressionExecutor> executor;
    SelectionVector selection;
};

void *OpenScan(ScanGlobal &global, const vector<column_t> &columns, const FilterPush &push,
               ClientContext &context)
{
    static_assert(sizeof(context.interrupted) == sizeof(bool), "polled as a bool by the scan");
    vector<uint32_t> wanted;
    for (auto column : columns) {
        if (column != COLUMN_IDENTIFIER_EMPTY) {
            wanted.push_back(NumericCast<uint32_t>(column));
        }
    }
    struct sql_scan_request request = {};
    request.columns = wanted.data();
    request.column_count = wanted.size();
    request.filters = push.filters.data();
    request.filter_count = push.filters.size();
    request.stop = reinterpret_cast<const bool *>(&context.interrupted);
    struct lake_error error = {};
    void *scan = nullptr;
    auto &source = global.source->source;
    if (source.methods->open(source.object, &request, &scan, &error) != LAKE_OK) {
        global.state->ThrowScanError(error);
    }
    return scan;
}

/* The mandatory filters that the source did not apply, as one expression over the scan's columns.
 */
unique_ptr<Expression> Residual(const ScanGlobal &global, const FilterPush &push,
                                const vector<LogicalType> &types)
{
    auto methods = global.source->source.methods;
    vector<unique_ptr<Expression>> conjuncts;
    for (auto &leaf : push.leaves) {
        if (leaf.pushed_at.IsValid() &&
            methods->filter_applied(global.scan, leaf.pushed_at.GetIndex())) {
            continue;
        }
        BoundReferenceExpression column(types[leaf.position], leaf.position);
        conjuncts.push_back(leaf.filter->ToExpression(column));
    }
    if (conjuncts.empty()) {
        return nullptr;
    }
    if (conjuncts.size() == 1) {
        return std::move(conjuncts[0]);
    }
    auto all = make_uniq<BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND);
    all->children = std::move(conjuncts);
    return std::move(all);
}

unique_ptr<GlobalTableFunctionState> ScanInitGlobal(ClientContext &context,
                                                    TableFunctionInitInput &input)
{
    auto &bind = input.bind_data->Cast<ScanBind>();
    auto result = make_uniq<ScanGlobal>();
    result->source = bind.source;
    result->arrow = &bind.table.arrow.GetColumns();
    result->state = context.registered_state->Get<LakeState>(STATE_NAME);
    if (!result->state) {
        throw PermissionException("this connection has no tables");
    }
    auto columns = input.column_ids; /* as the source counts them */
    vector<LogicalType> types;
    for (auto &column : columns) {
        if (column == HIDDEN_COLUMN) {
            column = bind.table.arrow.GetTypes().size() - 1;
            types.push_back(bind.table.hidden.type);
        } else {
            types.push_back(column == COLUMN_IDENTIFIER_EMPTY
                                ? LogicalType::BOOLEAN
                                : bind.table.GetColumn(LogicalIndex(column)).Type());
        }
    }
    FilterPush push;
    if (input.filters) {
        for (auto &entry : input.filters->filters) {
            auto column = columns[entry.first];
            push.Add(*entry.second, entry.first, column, *result->arrow->at(column), true);
        }
    }
    for (auto &hint : bind.hints) {
        push.AddNull(hint.column, hint.op);
    }
    /* Columns that only filters need are not read when the source applies these itself. */
    auto prune = input.CanRemoveFilterColumns();
    vector<column_t> kept;
    vector<LogicalType> kept_types;
    for (auto position : input.projection_ids) {
        kept.push_back(columns[position]);
        kept_types.push_back(types[position]);
    }
    result->scan = OpenScan(*result, prune ? kept : columns, push, context);
    result->residual = Residual(*result, push, types);
    if (prune && result->residual) {
        result->source->source.methods->scan_free(result->scan);
        result->scan = nullptr;
        result->scan = OpenScan(*result, columns, push, context);
        result->output_columns = input.projection_ids;
    }
    auto pruned = prune && !result->residual;
    result->columns = pruned ? std::move(kept) : std::move(columns);
    result->types = pruned ? std::move(kept_types) : std::move(types);
    auto &source = result->source->source;
    auto schema = source.methods->schema(source.object);
    for (auto column : result->columns) {
        result->layouts.push_back(column == COLUMN_IDENTIFIER_EMPTY
                                      ? sql_run_layout()
                                      : sql_run_layout_of(schema->children[column]));
    }
    result->asked = input.column_ids;
    result->partitioned = bind.partitioned;
    for (auto column : result->partitioned) {
        auto found = std::find(result->columns.begin(), result->columns.end(), column);
        if (found == result->columns.end()) {
            throw InternalException("a scan lacks the column that it is partitioned by");
        }
        result->partitions.push_back(NumericCast<idx_t>(found - result->columns.begin()));
    }
    auto tasks = source.methods->task_count(result->scan);
    result->max_threads = MaxValue<idx_t>(tasks, 1);
    return std::move(result);
}

unique_ptr<LocalTableFunctionState> ScanInitLocal(ExecutionContext &context,
                                                  TableFunctionInitInput &,
                                                  GlobalTableFunctionState *global)
{
    return make_uniq<ScanLocal>(context.client, global->Cast<ScanGlobal>());
}

/* The next batch into the local state; false when no task is left. */
bool NextBatch(ScanLocal &local)
{
    auto &global = local.global;
    auto methods = global.source->source.methods;
    struct lake_error error = {};
    while (true) {
        if (local.task == nullptr) {
            if (methods->next_task(global.scan, &local.task, &error) != LAKE_OK) {
                global.state->ThrowScanError(error);
            }
            if (local.task == nullptr) {
                return false;
            }
            local.batch_index = methods->task_index(local.task);
            if (!global.partitioned.empty()) {
                local.batch_index *= TASK_PARTITIONS;
                local.partition.clear();
            }
        }
        auto batch = make_shared_ptr<ArrowArrayWrapper>();
        bool end = false;
        if (methods->next_batch(local.task, &batch->arrow_array, &end, &error) != LAKE_OK) {
            global.state->ThrowScanError(error);
        }
        if (!end) {
            if (batch->arrow_array.offset != 0) {
                throw InternalException("a scan's batch has an offset");
            }
            local.arrow_state.Reset();
            local.arrow_state.chunk = std::move(batch);
            return true;
        }
        local.FreeTask();
    }
}

/* How many rows the next vector takes: where a long run ends, it ends. */
idx_t NextRows(ScanLocal &local)
{
    auto &state = local.arrow_state;
    auto &batch = state.chunk->arrow_array;
    auto rows = MinValue<idx_t>(STANDARD_VECTOR_SIZE,
                                NumericCast<idx_t>(batch.length) - state.chunk_offset);
    auto result = rows;
    idx_t child = 0;
    local.runs.clear();
    for (idx_t i = 0; i < local.global.columns.size(); i++) {
        if (local.global.columns[i] == COLUMN_IDENTIFIER_EMPTY) {
            local.runs.push_back(1);
            continue;
        }
        if (child >= NumericCast<idx_t>(batch.n_children) ||
            batch.children[child]->length != batch.length) {
            throw InternalException("a scan's batch does not have the columns asked for");
        }
        auto run = sql_run_length(local.global.layouts[i], batch.children[child++],
                                  state.chunk_offset, rows);
        local.runs.push_back(run);
        if (run >= RUN_ROWS) {
            result = MinValue<idx_t>(result, run);
        }
    }
    for (auto i : local.global.partitions) {
        result = MinValue<idx_t>(result, local.runs[i]);
    }
    return result;
}

/* The partition of a vector of rows: another one when a value differs. */
void NotePartition(ScanLocal &local, DataChunk &columns)
{
    vector<Value> values;
    for (auto i : local.global.partitions) {
        values.push_back(columns.data[i].GetValue(0));
    }
    auto same =
        local.partition.size() == values.size() &&
        std::equal(values.begin(), values.end(), local.partition.begin(),
                   [](const Value &a, const Value &b) { return Value::NotDistinctFrom(a, b); });
    if (!same) {
        local.batch_index += local.partition.empty() ? 0 : 1;
        local.partition = std::move(values);
    }
}

/* Rows [chunk_offset, chunk_offset + output.size()) of the batch. Fixed-width buffers are used
 * where they are; the vectors hold the batch. */
void ReadColumns(ScanLocal &local, DataChunk &output)
{
    auto &state = local.arrow_state;
    auto &batch = state.chunk->arrow_array;
    idx_t child = 0;
    for (idx_t i = 0; i < output.ColumnCount(); i++) {
        auto column = local.global.columns[i];
        if (column == COLUMN_IDENTIFIER_EMPTY) {
            output.data[i].Reference(Value(output.data[i].GetType()));
            continue;
        }
        auto &array = *batch.children[child++];
        auto constant = output.size() > 1 && local.runs[i] >= output.size();
        auto rows = constant ? 1 : output.size();
        auto &type = *local.global.arrow->at(column);
        auto &column_state = state.GetState(i);
        if (!column_state.owned_data) {
            column_state.owned_data = state.chunk;
        }
        auto offset = state.chunk_offset;
        switch (type.GetPhysicalType()) {
        case ArrowArrayPhysicalType::DICTIONARY_ENCODED:
            ArrowToDuckDBConversion::ColumnArrowToDuckDBDictionary(output.data[i], array, offset,
                                                                   column_state, rows, type);
            break;
        case ArrowArrayPhysicalType::RUN_END_ENCODED:
            ArrowToDuckDBConversion::ColumnArrowToDuckDBRunEndEncoded(output.data[i], array, offset,
                                                                      column_state, rows, type);
            break;
        default:
            ArrowToDuckDBConversion::SetValidityMask(output.data[i], array, offset, rows, 0, -1);
            ArrowToDuckDBConversion::ColumnArrowToDuckDB(output.data[i], array, offset,
                                                         column_state, rows, type);
        }
        if (constant) {
            output.data[i].SetVectorType(VectorType::CONSTANT_VECTOR);
        }
    }
    if (!local.global.partitions.empty()) {
        NotePartition(local, output);
    }
}

void ScanFunction(ClientContext &context, TableFunctionInput &input, DataChunk &output)
{
    auto &local = input.local_state->Cast<ScanLocal>();
    auto &global = local.global;
    auto &state = local.arrow_state;
    while (true) {
        auto &batch = state.chunk->arrow_array;
        if (batch.release == nullptr || state.chunk_offset >= NumericCast<idx_t>(batch.length)) {
            if (context.interrupted) {
                throw InterruptException();
            }
            if (!NextBatch(local)) {
                output.SetCardinality(0);
                return;
            }
            continue;
        }
        auto rows = NextRows(local);
        if (!global.residual && global.output_columns.empty()) {
            output.SetCardinality(rows);
            ReadColumns(local, output);
            state.chunk_offset += rows;
            return;
        }
        auto &all = local.all_columns;
        all.Reset();
        all.SetCardinality(rows);
        ReadColumns(local, all);
        state.chunk_offset += rows;
        idx_t passed = rows;
        if (global.residual) {
            passed = local.executor->SelectExpression(all, local.selection);
            if (passed == 0) {
                continue;
            }
        }
        if (global.output_columns.empty()) {
            output.Reference(all);
        } else {
            output.ReferenceColumns(all, global.output_columns);
        }
        if (passed != rows) {
            output.Slice(local.selection, passed);
        }
        return;
    }
}

OperatorPartitionData ScanPartition(ClientContext &, TableFunctionGetPartitionInput &input)
{
    auto &global = input.global_state->Cast<ScanGlobal>();
    auto &local = input.local_state->Cast<ScanLocal>();
    OperatorPartitionData result(local.batch_index);
    for (auto position : input.partition_info.partition_columns) {
        auto found = std::find(global.partitioned.begin(), global.partitioned.end(),
                               global.asked.at(position));
        if (found == global.partitioned.end()) {
            throw InternalException("a scan is not partitioned by a column");
        }
        auto at = NumericCast<idx_t>(found - global.partitioned.begin());
        result.partition_data.emplace_back(local.partition.at(at));
    }
    return result;
}

/* Whether all rows with the same values of some columns lie together in few places. */
TablePartitionInfo ScanPartitionInfo(ClientContext &, TableFunctionPartitionInput &input)
{
    auto &bind = input.bind_data->Cast<ScanBind>();
    auto &source = bind.source->source;
    auto schema = source.methods->schema(source.object);
    auto most =
        MinValue<idx_t>(MAX_PARTITIONS, source.methods->row_count(source.object) / PARTITION_ROWS);
    idx_t runs = 0;
    for (auto column : input.partition_ids) {
        auto &table = bind.table;
        if (column >= NumericCast<idx_t>(schema->n_children) || table.unreadable.count(column)) {
            return TablePartitionInfo::NOT_PARTITIONED;
        }
        auto layout = sql_run_layout_of(schema->children[column]);
        auto found =
            layout.item_bits == 0 && layout.offset_bits == 0
                ? 0
                : source.methods->column_runs(source.object, NumericCast<uint32_t>(column), most);
        runs += found;
        if (found == 0 || runs > most) {
            return TablePartitionInfo::NOT_PARTITIONED;
        }
    }
    bind.partitioned = input.partition_ids;
    return TablePartitionInfo::SINGLE_VALUE_PARTITIONS;
}

uint64_t RowCount(const FunctionData &bind)
{
    auto &source = bind.Cast<ScanBind>().source->source;
    return source.methods->row_count(source.object);
}

unique_ptr<NodeStatistics> ScanCardinality(ClientContext &, const FunctionData *bind)
{
    auto rows = RowCount(*bind);
    return make_uniq<NodeStatistics>(rows, rows);
}

/* Lets the engine answer count(*) without a scan. */
vector<PartitionStatistics> ScanPartitionStats(ClientContext &, GetPartitionStatsInput &input)
{
    PartitionStatistics all;
    all.row_start = 0;
    all.count = RowCount(*input.bind_data);
    all.count_type = CountType::COUNT_EXACT;
    vector<PartitionStatistics> result;
    result.push_back(std::move(all));
    return result;
}

/* IS [NOT] NULL never comes as a table filter. It is noted for the source and left in the plan. */
void ScanComplexFilter(ClientContext &, LogicalGet &get, FunctionData *bind_data,
                       vector<unique_ptr<Expression>> &filters)
{
    auto &bind = bind_data->Cast<ScanBind>();
    for (auto &filter : filters) {
        auto type = filter->GetExpressionType();
        if (type != ExpressionType::OPERATOR_IS_NULL &&
            type != ExpressionType::OPERATOR_IS_NOT_NULL) {
            continue;
        }
        auto &child = *filter->Cast<BoundOperatorExpression>().children[0];
        if (child.GetExpressionType() != ExpressionType::BOUND_COLUMN_REF) {
            continue;
        }
        auto &binding = child.Cast<BoundColumnRefExpression>().binding;
        if (binding.table_index != get.table_index) {
            continue;
        }
        auto &column = get.GetColumnIds()[binding.column_index];
        if (column.IsVirtualColumn() || column.HasChildren()) {
            continue;
        }
        NullHint hint{column.GetPrimaryIndex(), type == ExpressionType::OPERATOR_IS_NULL
                                                    ? SQL_FILTER_IS_NULL
                                                    : SQL_FILTER_IS_NOT_NULL};
        auto known = std::any_of(bind.hints.begin(), bind.hints.end(), [&](const NullHint &h) {
            return h.column == hint.column && h.op == hint.op;
        });
        if (!known) {
            bind.hints.push_back(hint);
        }
    }
}

BindInfo ScanBindInfo(const optional_ptr<FunctionData> bind)
{
    return BindInfo(bind->Cast<ScanBind>().table);
}

InsertionOrderPreservingMap<string> ScanToString(TableFunctionToStringInput &input)
{
    InsertionOrderPreservingMap<string> result;
    auto &table = input.bind_data->Cast<ScanBind>().table;
    result["Table"] = table.ParentSchema().name + "." + table.name;
    return result;
}

} // namespace

void CheckScan(const LogicalGet &get)
{
    auto &table = get.bind_data->Cast<ScanBind>().table;
    for (auto &column : get.GetColumnIds()) {
        auto found = column.IsVirtualColumn() ? table.unreadable.end()
                                              : table.unreadable.find(column.GetPrimaryIndex());
        if (found != table.unreadable.end()) {
            throw NotImplementedException("SQL cannot read the column %s of table %s (%s): select "
                                          "the others by name",
                                          table.GetColumn(LogicalIndex(found->first)).Name(),
                                          table.name, found->second);
        }
    }
}

bool IsOurScan(const TableFunction &function)
{
    return function.function == ScanFunction;
}

TableFunction LakeTable::GetScanFunction(ClientContext &, unique_ptr<FunctionData> &bind)
{
    bind = make_uniq<ScanBind>(*this);
    TableFunction function(SCAN_NAME, {}, ScanFunction, nullptr, ScanInitGlobal, ScanInitLocal);
    function.projection_pushdown = true;
    function.filter_pushdown = true;
    function.filter_prune = true;
    function.cardinality = ScanCardinality;
    function.get_partition_data = ScanPartition;
    function.get_partition_info = ScanPartitionInfo;
    function.get_partition_stats = ScanPartitionStats;
    function.pushdown_complex_filter = ScanComplexFilter;
    function.get_bind_info = ScanBindInfo;
    function.to_string = ScanToString;
    function.verify_serialization = false;
    return function;
}

} // namespace sql_bridge
