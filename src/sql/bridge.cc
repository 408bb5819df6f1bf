/*
 * The one C++ file of Lake: what DuckDB offers in C++ only.
 *
 *   parsing    - the tree of a statement, walked for its table references and everything it calls
 *   catalog    - the read-only catalog `lake`, whose tables belong to one connection (SQL-3)
 *   scan       - the table function under those tables, over sql_source (SQL-4)
 *   query      - a connection, its prepared statement, and its result as Arrow batches
 *
 * Everything a walk or check does not know is refused, so that a newer engine fails closed. Every
 * function with C linkage catches everything (guarded).
 */
#include "bridge.h"

#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/catalog/entry_lookup_info.hpp"
#include "duckdb/common/arrow/arrow_appender.hpp"
#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/common/error_data.hpp"
#include "duckdb/common/extension_type_info.hpp"
#include "duckdb/common/type_visitor.hpp"
#include "duckdb/common/vector_operations/unary_executor.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/cast/cast_function_set.hpp"
#include "duckdb/function/cast/default_casts.hpp"
#include "duckdb/function/partition_stats.hpp"
#include "duckdb/function/table/arrow.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/capi/capi_internal.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/main/prepared_statement.hpp"
#include "duckdb/main/stream_query_result.hpp"
#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/statement/explain_statement.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/list.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_operator_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression/bound_subquery_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/list.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/planner_extension.hpp"
#include "duckdb/planner/tableref/bound_at_clause.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/storage/storage_extension.hpp"
#include "duckdb/storage/table_storage_info.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

extern "C" {
#include <base/base.h>
}

using namespace duckdb;

namespace
{

const char *const STATE_NAME = "lake";
const char *const SCAN_NAME = "lake_scan";
const char *const FILE_PROPERTY = "lake.file"; /* of a type; an alias would hide its fields */
const char *const UTC_PROPERTY = "lake.utc";   /* of a timestamp of nanoseconds in a zone */
constexpr idx_t MAX_DEPTH = 1000;              /* of a statement's tree; the parser has the same */

/* ---- errors across the border --------------------------------------------------------------- */

/* A refusal of our own, with its status. */
struct Refusal {
    lake_status status;
    string message;
};

lake_status StatusOf(ExceptionType type)
{
    switch (type) {
    case ExceptionType::OUT_OF_MEMORY:
        return LAKE_RESOURCE_EXHAUSTED;
    case ExceptionType::INTERRUPT:
        return LAKE_CANCELLED;
    case ExceptionType::PERMISSION:
        return LAKE_PERMISSION_DENIED;
    case ExceptionType::NOT_IMPLEMENTED:
        return LAKE_UNIMPLEMENTED;
    case ExceptionType::IO:
    case ExceptionType::HTTP:
    case ExceptionType::NETWORK:
    case ExceptionType::CONNECTION:
        return LAKE_UNAVAILABLE;
    case ExceptionType::FATAL:
    case ExceptionType::INTERNAL:
    case ExceptionType::NULL_POINTER:
    case ExceptionType::OPTIMIZER:
    case ExceptionType::SCHEDULER:
        return LAKE_INTERNAL;
    default:
        return LAKE_INVALID_ARGUMENT; /* what is wrong with the statement or its data */
    }
}

lake_status Fail(struct lake_error *err, const ErrorData &error)
{
    return lake_fail(err, StatusOf(error.Type()), "%s", error.Message().c_str());
}

template <class F> lake_status guarded(struct lake_error *err, F &&body) noexcept
{
    try {
        return body();
    } catch (const Refusal &refusal) {
        return lake_fail(err, refusal.status, "%s", refusal.message.c_str());
    } catch (const std::bad_alloc &) {
        return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the SQL engine is out of memory");
    } catch (const std::exception &ex) {
        try {
            return Fail(err, ErrorData(ex));
        } catch (...) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the SQL engine is out of memory");
        }
    } catch (...) {
        return lake_fail(err, LAKE_INTERNAL, "the SQL engine failed without a message");
    }
}

/* ---- parsing: references and refusals ------------------------------------------------------- */

struct Reference {
    string catalog, schema, table;
    uint64_t at_version;
};

bool SameName(const string &a, const string &b)
{
    return StringUtil::CIEquals(a, b);
}

/*
 * Walks a statement's tree. Base tables that are not CTE names become references; function names go
 * through the lists of functions.c. CTE names follow the binder: a CTE sees those before it and not
 * itself, the right side of a recursive one sees itself.
 */
class ReferenceWalk
{
  public:
    explicit ReferenceWalk(idx_t max_references) : max_references(max_references)
    {
    }

    vector<Reference> references;
    vector<reference<BaseTableRef>> nodes; /* where they stand, for rewriting */

    void Node(QueryNode &node)
    {
        Deeper deeper(*this);
        auto outer_names = names.size();
        for (auto &entry : node.cte_map.map) {
            auto &info = *entry.second;
            Node(*info.query->node);
            Expressions(info.key_targets);
            names.push_back(entry.first);
        }
        switch (node.type) {
        case QueryNodeType::SELECT_NODE:
            Select(node.Cast<SelectNode>());
            break;
        case QueryNodeType::SET_OPERATION_NODE:
            for (auto &child : node.Cast<SetOperationNode>().children) {
                Node(*child);
            }
            break;
        case QueryNodeType::RECURSIVE_CTE_NODE: {
            auto &cte = node.Cast<RecursiveCTENode>();
            Node(*cte.left);
            names.push_back(cte.ctename);
            Node(*cte.right);
            Expressions(cte.key_targets);
            break;
        }
        case QueryNodeType::CTE_NODE: {
            auto &cte = node.Cast<CTENode>();
            Node(*cte.query);
            names.push_back(cte.ctename);
            Node(*cte.child);
            break;
        }
        default:
            throw Refusal{LAKE_INVALID_ARGUMENT, sql_read_only_message};
        }
        ParsedExpressionIterator::EnumerateQueryNodeModifiers(
            node, [&](unique_ptr<ParsedExpression> &child) { Expr(*child); });
        names.resize(outer_names);
    }

  private:
    struct Deeper {
        explicit Deeper(ReferenceWalk &walk) : walk(walk)
        {
            if (++walk.depth > MAX_DEPTH) {
                throw Refusal{LAKE_INVALID_ARGUMENT,
                              "the statement is nested more than 1000 levels deep; simplify it"};
            }
        }
        ~Deeper()
        {
            --walk.depth;
        }
        ReferenceWalk &walk;
    };

    void Select(SelectNode &select)
    {
        Expressions(select.select_list);
        Optional(select.where_clause);
        Expressions(select.groups.group_expressions);
        Optional(select.having);
        Optional(select.qualify);
        if (select.from_table) {
            Table(*select.from_table);
        }
    }

    void Table(TableRef &ref)
    {
        Deeper deeper(*this);
        switch (ref.type) {
        case TableReferenceType::BASE_TABLE:
            BaseTable(ref.Cast<BaseTableRef>());
            break;
        case TableReferenceType::SUBQUERY:
            Node(*ref.Cast<SubqueryRef>().subquery->node);
            break;
        case TableReferenceType::JOIN: {
            auto &join = ref.Cast<JoinRef>();
            Table(*join.left);
            Table(*join.right);
            Optional(join.condition);
            Expressions(join.duplicate_eliminated_columns);
            break;
        }
        case TableReferenceType::TABLE_FUNCTION:
            TableFunctionCall(ref.Cast<TableFunctionRef>());
            break;
        case TableReferenceType::EXPRESSION_LIST:
            for (auto &row : ref.Cast<ExpressionListRef>().values) {
                Expressions(row);
            }
            break;
        case TableReferenceType::EMPTY_FROM:
            break;
        case TableReferenceType::PIVOT:
            Pivot(ref.Cast<PivotRef>());
            break;
        case TableReferenceType::SHOW_REF: {
            auto &show = ref.Cast<ShowRef>();
            if (!show.query) {
                throw Refusal{LAKE_PERMISSION_DENIED,
                              "SHOW is not available: list tables through the catalog interface; "
                              "DESCRIBE and SUMMARIZE of a table or query are"};
            }
            Node(*show.query);
            break;
        }
        default:
            throw Refusal{LAKE_INVALID_ARGUMENT, "the statement uses a kind of table that is not "
                                                 "supported"};
        }
    }

    void Pivot(PivotRef &pivot)
    {
        Table(*pivot.source);
        Expressions(pivot.aggregates);
        for (auto &column : pivot.pivots) {
            Expressions(column.pivot_expressions);
            for (auto &entry : column.entries) {
                Optional(entry.expr);
            }
            if (column.subquery) {
                Node(*column.subquery);
            }
            if (!column.pivot_enum.empty()) {
                throw Refusal{LAKE_INVALID_ARGUMENT,
                              "PIVOT over an enum is not supported: list the values with IN"};
            }
        }
    }

    void TableFunctionCall(TableFunctionRef &ref)
    {
        if (ref.function->GetExpressionClass() != ExpressionClass::FUNCTION) {
            throw Refusal{LAKE_INVALID_ARGUMENT, "a table function call was expected in FROM"};
        }
        auto &call = ref.function->Cast<FunctionExpression>();
        auto name = StringUtil::Lower(call.function_name);
        if (!sql_table_function_allowed(name.c_str()) || !SystemSchema(call.catalog, call.schema)) {
            throw Refusal{LAKE_PERMISSION_DENIED, "table function " + name +
                                                      " is not available: statements read granted "
                                                      "tables only"};
        }
        Children(call);
        if (ref.subquery) {
            Node(*ref.subquery->node);
        }
    }

    void BaseTable(BaseTableRef &ref)
    {
        auto plain = ref.catalog_name.empty() && ref.schema_name.empty();
        auto recurring = ref.catalog_name.empty() && SameName(ref.schema_name, "recurring");
        if ((plain || recurring) && NamesCte(ref.table_name)) {
            return;
        }
        Reference found{ref.catalog_name, ref.schema_name, ref.table_name, AtVersion(ref)};
        nodes.push_back(ref);
        for (auto &known : references) {
            if (SameName(known.catalog, found.catalog) && SameName(known.schema, found.schema) &&
                SameName(known.table, found.table) && known.at_version == found.at_version) {
                return;
            }
        }
        if (references.size() == max_references) {
            throw Refusal{LAKE_INVALID_ARGUMENT,
                          "the statement names more than " + to_string(max_references) + " tables"};
        }
        references.push_back(std::move(found));
    }

    static uint64_t AtVersion(BaseTableRef &ref)
    {
        if (!ref.at_clause) {
            return 0;
        }
        Value version;
        auto &expr = ref.at_clause->ExpressionMutable();
        if (!SameName(ref.at_clause->Unit(), "version") ||
            expr->GetExpressionClass() != ExpressionClass::CONSTANT ||
            !expr->Cast<ConstantExpression>().value.DefaultTryCastAs(LogicalType::UBIGINT, version,
                                                                     nullptr) ||
            version.IsNull() || version.GetValue<uint64_t>() == 0) {
            throw Refusal{LAKE_INVALID_ARGUMENT,
                          "a table's version is named by AT (VERSION => n) with a number from 1"};
        }
        return version.GetValue<uint64_t>();
    }

    bool NamesCte(const string &name) const
    {
        for (auto &known : names) {
            if (SameName(known, name)) {
                return true;
            }
        }
        return false;
    }

    static bool SystemSchema(const string &catalog, const string &schema)
    {
        return (catalog.empty() || SameName(catalog, "system")) &&
               (schema.empty() || SameName(schema, "main") || SameName(schema, "pg_catalog"));
    }

    void Function(const string &catalog, const string &schema, const string &function_name)
    {
        auto name = StringUtil::Lower(function_name);
        if (!sql_function_allowed(name.c_str()) || !SystemSchema(catalog, schema)) {
            throw Refusal{LAKE_PERMISSION_DENIED, "function " + name +
                                                      " is not available: statements compute on "
                                                      "granted tables only"};
        }
    }

    void Expr(ParsedExpression &expr)
    {
        Deeper deeper(*this);
        switch (expr.GetExpressionClass()) {
        case ExpressionClass::FUNCTION: {
            auto &call = expr.Cast<FunctionExpression>();
            Function(call.catalog, call.schema, call.function_name);
            if (call.export_state) {
                throw Refusal{LAKE_PERMISSION_DENIED, "EXPORT_STATE is not available"};
            }
            break;
        }
        case ExpressionClass::WINDOW: {
            auto &window = expr.Cast<WindowExpression>();
            Function(window.catalog, window.schema, window.function_name);
            break;
        }
        case ExpressionClass::SUBQUERY:
            Node(*expr.Cast<SubqueryExpression>().subquery->node);
            break;
        case ExpressionClass::CAST:
            Type(expr.Cast<CastExpression>().cast_type);
            break;
        case ExpressionClass::CONSTANT:
            Type(expr.Cast<ConstantExpression>().value.type());
            break;
        case ExpressionClass::PARAMETER:
            throw Refusal{LAKE_INVALID_ARGUMENT,
                          "parameters are not supported: write the values into the statement"};
        case ExpressionClass::BOUND_EXPRESSION:
            throw Refusal{LAKE_INVALID_ARGUMENT, "the statement holds an expression that is not "
                                                 "supported"};
        default:
            break; /* EnumerateChildren throws for a class it does not know */
        }
        Children(expr);
    }

    void Type(const LogicalType &type)
    {
        if (type.id() == LogicalTypeId::UNBOUND) {
            auto &expr = UnboundType::GetTypeExpression(type);
            if (expr) {
                Expr(*expr);
            }
        }
    }

    void Children(ParsedExpression &expr)
    {
        ParsedExpressionIterator::EnumerateChildren(
            expr, [&](unique_ptr<ParsedExpression> &child) { Optional(child); });
    }

    void Optional(unique_ptr<ParsedExpression> &expr)
    {
        if (expr) {
            Expr(*expr);
        }
    }

    void Expressions(vector<unique_ptr<ParsedExpression>> &list)
    {
        for (auto &expr : list) {
            Optional(expr);
        }
    }

    idx_t max_references;
    idx_t depth = 0;
    vector<string> names; /* CTEs in scope */
};

} // namespace

struct sql_bridge_statement {
    unique_ptr<SQLStatement> statement;
    vector<Reference> references;
    vector<reference<BaseTableRef>> nodes;
    bool explain = false;
};

namespace
{

unique_ptr<sql_bridge_statement> Parse(const string &sql, idx_t max_references)
{
    Parser parser;
    try {
        parser.ParseQuery(sql);
    } catch (const std::exception &ex) {
        ErrorData error(ex);
        if (error.Type() == ExceptionType::PARSER || error.Type() == ExceptionType::SYNTAX) {
            error.AddErrorLocation(sql);
        }
        throw Refusal{StatusOf(error.Type()), error.Message()};
    }
    if (parser.statements.empty()) {
        throw Refusal{LAKE_INVALID_ARGUMENT, "the statement is empty"};
    }
    if (parser.statements.size() > 1) {
        throw Refusal{LAKE_INVALID_ARGUMENT,
                      "one statement at a time: found " + to_string(parser.statements.size())};
    }
    auto result = make_uniq<sql_bridge_statement>();
    result->statement = std::move(parser.statements[0]);
    reference<SQLStatement> body = *result->statement;
    if (body.get().type == StatementType::EXPLAIN_STATEMENT) {
        result->explain = true;
        body = *body.get().Cast<ExplainStatement>().stmt;
    }
    if (body.get().type == StatementType::MULTI_STATEMENT) {
        throw Refusal{LAKE_INVALID_ARGUMENT,
                      "PIVOT needs its values: write PIVOT … ON column IN (value, …)"};
    }
    if (body.get().type != StatementType::SELECT_STATEMENT) {
        throw Refusal{LAKE_INVALID_ARGUMENT, sql_read_only_message};
    }
    ReferenceWalk walk(max_references);
    walk.Node(*body.get().Cast<SelectStatement>().node);
    if (!result->statement->named_param_map.empty()) {
        throw Refusal{LAKE_INVALID_ARGUMENT,
                      "parameters are not supported: write the values into the statement"};
    }
    result->references = std::move(walk.references);
    result->nodes = std::move(walk.nodes);
    return result;
}

/* ---- the catalog ---------------------------------------------------------------------------- */

[[noreturn]] void ThrowReadOnly()
{
    throw PermissionException(sql_read_only_message);
}

/* One reference to a source. */
class Source
{
  public:
    explicit Source(struct sql_source source) : source(source)
    {
    }
    Source(const Source &) = delete;
    Source &operator=(const Source &) = delete;
    ~Source()
    {
        source.methods->unref(source.object);
    }
    struct sql_source source;
};

class LakeTable : public TableCatalogEntry
{
  public:
    LakeTable(Catalog &catalog, SchemaCatalogEntry &schema, CreateTableInfo &info,
              uint64_t at_version, shared_ptr<Source> source, ArrowTableSchema arrow)
        : TableCatalogEntry(catalog, schema, info), at_version(at_version),
          source(std::move(source)), arrow(std::move(arrow))
    {
    }

    uint64_t at_version;
    shared_ptr<Source> source;
    ArrowTableSchema arrow;

    TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind) override;
    TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind,
                                  const EntryLookupInfo &) override
    {
        return GetScanFunction(context, bind); /* the lookup has already chosen the version */
    }
    unique_ptr<BaseStatistics> GetStatistics(ClientContext &, column_t) override
    {
        return nullptr;
    }
    TableStorageInfo GetStorageInfo(ClientContext &) override
    {
        return TableStorageInfo();
    }
    virtual_column_map_t GetVirtualColumns() const override
    {
        virtual_column_map_t result;
        result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
        return result;
    }
    vector<column_t> GetRowIdColumns() const override
    {
        return {};
    }
};

class LakeSchema : public SchemaCatalogEntry
{
  public:
    LakeSchema(Catalog &catalog, CreateSchemaInfo &info) : SchemaCatalogEntry(catalog, info)
    {
    }

    vector<unique_ptr<LakeTable>> tables;

    optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction,
                                           const EntryLookupInfo &lookup) override
    {
        if (lookup.GetCatalogType() != CatalogType::TABLE_ENTRY) {
            return nullptr;
        }
        uint64_t version = 0;
        if (lookup.GetAtClause()) {
            version = lookup.GetAtClause()->GetValue().GetValue<uint64_t>();
        }
        for (auto &table : tables) {
            if (SameName(table->name, lookup.GetEntryName()) && table->at_version == version) {
                return table.get();
            }
        }
        return nullptr;
    }
    void Scan(ClientContext &, CatalogType type,
              const std::function<void(CatalogEntry &)> &callback) override
    {
        Scan(type, callback);
    }
    void Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) override
    {
        if (type == CatalogType::TABLE_ENTRY) {
            for (auto &table : tables) {
                callback(*table);
            }
        }
    }

    optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction, CreateIndexInfo &,
                                           TableCatalogEntry &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction, CreateFunctionInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateTable(CatalogTransaction, BoundCreateTableInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateView(CatalogTransaction, CreateViewInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction, CreateSequenceInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateTableFunction(CatalogTransaction,
                                                   CreateTableFunctionInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateCopyFunction(CatalogTransaction,
                                                  CreateCopyFunctionInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreatePragmaFunction(CatalogTransaction,
                                                    CreatePragmaFunctionInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateCollation(CatalogTransaction, CreateCollationInfo &) override
    {
        ThrowReadOnly();
    }
    optional_ptr<CatalogEntry> CreateType(CatalogTransaction, CreateTypeInfo &) override
    {
        ThrowReadOnly();
    }
    void DropEntry(ClientContext &, DropInfo &) override
    {
        ThrowReadOnly();
    }
    void Alter(CatalogTransaction, AlterInfo &) override
    {
        ThrowReadOnly();
    }
};

/* What one connection may see, and the first error of its scans, whose status an exception through
 * the engine would lose. */
class LakeState : public ClientContextState
{
  public:
    vector<unique_ptr<LakeSchema>> schemas; /* immutable once the statement is prepared */

    LakeSchema *Find(const string &name) const
    {
        for (auto &schema : schemas) {
            if (SameName(schema->name, name)) {
                return schema.get();
            }
        }
        return nullptr;
    }

    [[noreturn]] void ThrowScanError(const struct lake_error &error)
    {
        {
            lock_guard<mutex> guard(lock);
            if (scan_error.code == LAKE_OK) {
                scan_error = error;
            }
        }
        if (error.code == LAKE_CANCELLED) {
            throw InterruptException();
        }
        throw IOException("%s", string(error.message));
    }
    bool TakeScanError(struct lake_error *err)
    {
        lock_guard<mutex> guard(lock);
        if (scan_error.code == LAKE_OK) {
            return false;
        }
        if (err != nullptr) {
            *err = scan_error;
        }
        return true;
    }

  private:
    mutex lock; /* of scan_error */
    struct lake_error scan_error = {};
};

shared_ptr<LakeState> StateOf(CatalogTransaction &transaction)
{
    if (!transaction.HasContext()) {
        return nullptr;
    }
    return transaction.GetContext().registered_state->Get<LakeState>(STATE_NAME);
}

class LakeCatalog : public Catalog
{
  public:
    explicit LakeCatalog(AttachedDatabase &db) : Catalog(db)
    {
    }

    void Initialize(bool) override
    {
    }
    string GetCatalogType() override
    {
        return SQL_BRIDGE_CATALOG;
    }
    optional_idx GetCatalogVersion(ClientContext &) override
    {
        return 1; /* a connection's tables never change, so its plan never needs a second binding */
    }
    /* A connection without tables of its own, such as one the engine opens inside, sees nothing. */
    optional_ptr<SchemaCatalogEntry> LookupSchema(CatalogTransaction transaction,
                                                  const EntryLookupInfo &lookup,
                                                  OnEntryNotFound if_not_found) override
    {
        auto state = StateOf(transaction);
        auto schema = state ? state->Find(lookup.GetEntryName()) : nullptr;
        if (schema == nullptr && if_not_found == OnEntryNotFound::THROW_EXCEPTION) {
            throw CatalogException("schema %s does not exist", lookup.GetEntryName());
        }
        return schema;
    }
    void ScanSchemas(ClientContext &context,
                     std::function<void(SchemaCatalogEntry &)> callback) override
    {
        auto state = context.registered_state->Get<LakeState>(STATE_NAME);
        if (state) {
            for (auto &schema : state->schemas) {
                callback(*schema);
            }
        }
    }
    bool SupportsTimeTravel() const override
    {
        return true; /* AT (VERSION => n) chooses among the bound tables */
    }
    bool InMemory() override
    {
        return true;
    }
    string GetDBPath() override
    {
        return string();
    }
    DatabaseSize GetDatabaseSize(ClientContext &) override
    {
        return DatabaseSize();
    }

    optional_ptr<CatalogEntry> CreateSchema(CatalogTransaction, CreateSchemaInfo &) override
    {
        ThrowReadOnly();
    }
    void DropSchema(ClientContext &, DropInfo &) override
    {
        ThrowReadOnly();
    }
    PhysicalOperator &PlanCreateTableAs(ClientContext &, PhysicalPlanGenerator &,
                                        LogicalCreateTable &, PhysicalOperator &) override
    {
        ThrowReadOnly();
    }
    PhysicalOperator &PlanInsert(ClientContext &, PhysicalPlanGenerator &, LogicalInsert &,
                                 optional_ptr<PhysicalOperator>) override
    {
        ThrowReadOnly();
    }
    PhysicalOperator &PlanDelete(ClientContext &, PhysicalPlanGenerator &, LogicalDelete &,
                                 PhysicalOperator &) override
    {
        ThrowReadOnly();
    }
    PhysicalOperator &PlanUpdate(ClientContext &, PhysicalPlanGenerator &, LogicalUpdate &,
                                 PhysicalOperator &) override
    {
        ThrowReadOnly();
    }
    unique_ptr<LogicalOperator> BindCreateIndex(Binder &, CreateStatement &, TableCatalogEntry &,
                                                unique_ptr<LogicalOperator>) override
    {
        ThrowReadOnly();
    }
};

/* Nothing is ever written, so a transaction is only the engine's handle. */
class LakeTransactionManager : public TransactionManager
{
  public:
    explicit LakeTransactionManager(AttachedDatabase &db) : TransactionManager(db)
    {
    }

    Transaction &StartTransaction(ClientContext &context) override
    {
        auto transaction = make_uniq<Transaction>(*this, context);
        auto &result = *transaction;
        lock_guard<mutex> guard(lock);
        transactions[result] = std::move(transaction);
        return result;
    }
    ErrorData CommitTransaction(ClientContext &, Transaction &transaction) override
    {
        RollbackTransaction(transaction);
        return ErrorData();
    }
    void RollbackTransaction(Transaction &transaction) override
    {
        lock_guard<mutex> guard(lock);
        transactions.erase(transaction);
    }
    void Checkpoint(ClientContext &, bool) override
    {
    }

  private:
    mutex lock; /* of transactions */
    reference_map_t<Transaction, unique_ptr<Transaction>> transactions;
};

unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo>, ClientContext &,
                           AttachedDatabase &db, const string &, AttachInfo &, AttachOptions &)
{
    return make_uniq<LakeCatalog>(db);
}

unique_ptr<TransactionManager> MakeTransactionManager(optional_ptr<StorageExtensionInfo>,
                                                      AttachedDatabase &db, Catalog &)
{
    return make_uniq<LakeTransactionManager>(db);
}

/* ---- the scan ------------------------------------------------------------------------------- */

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

    unique_ptr<FunctionData> Copy() const override
    {
        auto copy = make_uniq<ScanBind>(table);
        copy->hints = hints;
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
    vector<column_t> columns;     /* of a batch; COLUMN_IDENTIFIER_EMPTY has no array */
    vector<LogicalType> types;    /* of `columns` */
    vector<idx_t> output_columns; /* positions in `columns`, when not all of them leave the scan */
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
    vector<LogicalType> types;
    for (auto column : input.column_ids) {
        types.push_back(column == COLUMN_IDENTIFIER_EMPTY
                            ? LogicalType::BOOLEAN
                            : bind.table.GetColumn(LogicalIndex(column)).Type());
    }
    FilterPush push;
    if (input.filters) {
        for (auto &entry : input.filters->filters) {
            auto column = input.column_ids[entry.first];
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
        kept.push_back(input.column_ids[position]);
        kept_types.push_back(types[position]);
    }
    result->scan = OpenScan(*result, prune ? kept : input.column_ids, push, context);
    result->residual = Residual(*result, push, types);
    if (prune && result->residual) {
        result->source->source.methods->scan_free(result->scan);
        result->scan = nullptr;
        result->scan = OpenScan(*result, input.column_ids, push, context);
        result->output_columns = input.projection_ids;
    }
    auto pruned = prune && !result->residual;
    result->columns = pruned ? std::move(kept) : input.column_ids;
    result->types = pruned ? std::move(kept_types) : std::move(types);
    auto tasks = result->source->source.methods->task_count(result->scan);
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
        if (child >= NumericCast<idx_t>(batch.n_children) ||
            batch.children[child]->length != batch.length) {
            throw InternalException("a scan's batch does not have the columns asked for");
        }
        auto &array = *batch.children[child++];
        auto &type = *local.global.arrow->at(column);
        auto &column_state = state.GetState(i);
        if (!column_state.owned_data) {
            column_state.owned_data = state.chunk;
        }
        auto offset = state.chunk_offset;
        switch (type.GetPhysicalType()) {
        case ArrowArrayPhysicalType::DICTIONARY_ENCODED:
            ArrowToDuckDBConversion::ColumnArrowToDuckDBDictionary(
                output.data[i], array, offset, column_state, output.size(), type);
            break;
        case ArrowArrayPhysicalType::RUN_END_ENCODED:
            ArrowToDuckDBConversion::ColumnArrowToDuckDBRunEndEncoded(
                output.data[i], array, offset, column_state, output.size(), type);
            break;
        default:
            ArrowToDuckDBConversion::SetValidityMask(output.data[i], array, offset, output.size(),
                                                     0, -1);
            ArrowToDuckDBConversion::ColumnArrowToDuckDB(output.data[i], array, offset,
                                                         column_state, output.size(), type);
        }
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
        auto rows = MinValue<idx_t>(STANDARD_VECTOR_SIZE,
                                    NumericCast<idx_t>(batch.length) - state.chunk_offset);
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
    if (input.partition_info.RequiresPartitionColumns()) {
        throw InternalException("lake_scan has no partition columns");
    }
    return OperatorPartitionData(input.local_state->Cast<ScanLocal>().batch_index);
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

TableFunction LakeTable::GetScanFunction(ClientContext &, unique_ptr<FunctionData> &bind)
{
    bind = make_uniq<ScanBind>(*this);
    TableFunction function(SCAN_NAME, {}, ScanFunction, nullptr, ScanInitGlobal, ScanInitLocal);
    function.projection_pushdown = true;
    function.filter_pushdown = true;
    function.filter_prune = true;
    function.cardinality = ScanCardinality;
    function.get_partition_data = ScanPartition;
    function.get_partition_stats = ScanPartitionStats;
    function.pushdown_complex_filter = ScanComplexFilter;
    function.get_bind_info = ScanBindInfo;
    function.to_string = ScanToString;
    function.verify_serialization = false;
    return function;
}

/* ---- the check after binding ---------------------------------------------------------------- */

struct LakeInfo : public PlannerExtensionInfo {
    LakeInfo(const struct sql_bridge_file_type &file_type) : file_type(file_type)
    {
    }
    struct sql_bridge_file_type file_type;
    atomic<bool> locked{false};
};

void CheckOperator(LogicalOperator &op, idx_t depth);

void CheckExpression(Expression &expr, idx_t depth)
{
    if (depth > MAX_DEPTH) {
        throw PermissionException("the plan is nested too deeply");
    }
    if (expr.GetExpressionClass() == ExpressionClass::BOUND_SUBQUERY) {
        auto &subquery = expr.Cast<BoundSubqueryExpression>();
        if (subquery.subquery.plan) {
            CheckOperator(*subquery.subquery.plan, depth + 1);
        }
    }
    ExpressionIterator::EnumerateChildren(
        expr, [&](Expression &child) { CheckExpression(child, depth + 1); });
}

/* The second line of SQL-6: whatever path led to it, a bound plan reads our scans and the allowed
 * table functions only, and does nothing but read. */
void CheckOperator(LogicalOperator &op, idx_t depth)
{
    if (depth > MAX_DEPTH) {
        throw PermissionException("the plan is nested too deeply");
    }
    if (op.type == LogicalOperatorType::LOGICAL_GET) {
        auto &get = op.Cast<LogicalGet>();
        auto ours = get.function.function == ScanFunction;
        if (!ours && !sql_table_function_allowed(StringUtil::Lower(get.function.name).c_str())) {
            throw PermissionException("table function %s is not available", get.function.name);
        }
    } else if (op.type > LogicalOperatorType::LOGICAL_MATERIALIZED_CTE &&
               op.type != LogicalOperatorType::LOGICAL_EXPLAIN) {
        throw PermissionException(sql_read_only_message);
    } else if (op.type == LogicalOperatorType::LOGICAL_COPY_TO_FILE ||
               op.type == LogicalOperatorType::LOGICAL_COPY_DATABASE) {
        throw PermissionException(sql_read_only_message);
    }
    for (auto &expr : op.expressions) {
        CheckExpression(*expr, depth + 1);
    }
    for (auto &child : op.children) {
        CheckOperator(*child, depth + 1);
    }
}

void PostBind(PlannerExtensionInput &input, BoundStatement &statement)
{
    auto &info = static_cast<LakeInfo &>(*input.info);
    if (info.locked && statement.plan) {
        CheckOperator(*statement.plan, 0);
    }
}

shared_ptr<LakeInfo> InfoOf(ClientContext &context)
{
    for (auto &extension : PlannerExtension::Iterate(context)) {
        if (extension.post_bind_function == PostBind) {
            return shared_ptr_cast<PlannerExtensionInfo, LakeInfo>(extension.planner_info);
        }
    }
    throw InternalException("the bridge is not installed in this instance");
}

DuckDB &DatabaseOf(void *database)
{
    return *reinterpret_cast<DatabaseWrapper *>(database)->database;
}

/* ---- tables of a statement ------------------------------------------------------------------ */

LogicalType Marked(const LogicalType &type, const char *property)
{
    auto marked = type.DeepCopy();
    auto mark = make_uniq<ExtensionTypeInfo>();
    mark->properties[property] = Value::BOOLEAN(true);
    marked.SetExtensionInfo(std::move(mark));
    return marked;
}

bool HasMark(const LogicalType &type, const char *property)
{
    return type.HasExtensionInfo() && type.GetExtensionInfo()->properties.count(property) > 0;
}

/* The engine's type of an Arrow field, with what it does not know marked at any depth: FILE values,
 * and the zone of nanoseconds. The mark travels with the type through projections, joins and
 * subqueries, and is lost by any computation. */
LogicalType MarkTypes(const LogicalType &type, const ArrowSchema &field, const char *file_name)
{
    if (ArrowSchemaMetadata(field.metadata).GetOption(ArrowSchemaMetadata::ARROW_EXTENSION_NAME) ==
            file_name &&
        type.id() == LogicalTypeId::STRUCT) {
        return Marked(type, FILE_PROPERTY);
    }
    if (sql_is_zoned_ns(&field) && type.id() == LogicalTypeId::TIMESTAMP_NS) {
        return Marked(type, UTC_PROPERTY);
    }
    switch (type.id()) {
    case LogicalTypeId::STRUCT: {
        child_list_t<LogicalType> children = StructType::GetChildTypes(type);
        for (idx_t i = 0; i < children.size(); i++) {
            children[i].second = MarkTypes(children[i].second, *field.children[i], file_name);
        }
        return LogicalType::STRUCT(std::move(children));
    }
    case LogicalTypeId::LIST:
        return LogicalType::LIST(
            MarkTypes(ListType::GetChildType(type), *field.children[0], file_name));
    case LogicalTypeId::ARRAY:
        return LogicalType::ARRAY(
            MarkTypes(ArrayType::GetChildType(type), *field.children[0], file_name),
            ArrayType::GetSize(type));
    default:
        return type;
    }
}

bool CastToZone(Vector &source, Vector &result, idx_t count, CastParameters &)
{
    UnaryExecutor::Execute<timestamp_ns_t, timestamp_tz_t>(
        source, result, count, [](timestamp_ns_t value) {
            if (!Timestamp::IsFinite(value)) {
                return timestamp_tz_t(value.value);
            }
            auto micros = value.value / Interval::NANOS_PER_MICRO;
            return timestamp_tz_t(micros - (value.value % Interval::NANOS_PER_MICRO < 0 ? 1 : 0));
        });
    return true;
}

/* A marked type is another one to the engine, which asks for casts before it computes. */
void RegisterCasts(DatabaseInstance &instance)
{
    auto &casts = CastFunctionSet::Get(instance);
    LogicalType plain = LogicalType::TIMESTAMP_NS;
    auto marked = Marked(plain, UTC_PROPERTY);
    casts.RegisterCastFunction(marked, plain, BoundCastInfo(DefaultCasts::ReinterpretCast), 0);
    casts.RegisterCastFunction(plain, marked, BoundCastInfo(DefaultCasts::ReinterpretCast), 0);
    casts.RegisterCastFunction(marked, LogicalType::TIMESTAMP_TZ, BoundCastInfo(CastToZone), 1);
}

unique_ptr<LakeTable> MakeTable(ClientContext &context, Catalog &catalog, LakeSchema &schema,
                                const struct sql_bridge_table &table, shared_ptr<Source> source,
                                const char *file_name)
{
    auto arrow_schema = source->source.methods->schema(source->source.object);
    ArrowTableSchema arrow;
    ArrowSchemaWrapper plain;
    struct lake_error error = {};
    if (sql_exact_schema(arrow_schema, &plain.arrow_schema, &error) != LAKE_OK) {
        throw OutOfMemoryException("no memory for a table's schema");
    }
    try {
        ArrowTableFunction::PopulateArrowTableSchema(context, arrow, plain.arrow_schema);
    } catch (const std::exception &ex) {
        throw Refusal{LAKE_UNIMPLEMENTED,
                      "table " + string(table.schema) + "." + table.table +
                          " has a column that SQL cannot read: " + ErrorData(ex).RawMessage()};
    }
    CreateTableInfo info(schema, table.table);
    for (idx_t i = 0; i < arrow.GetNames().size(); i++) {
        info.columns.AddColumn(ColumnDefinition(
            arrow.GetNames()[i],
            MarkTypes(arrow.GetTypes()[i], *arrow_schema->children[i], file_name)));
    }
    return make_uniq<LakeTable>(catalog, schema, info, table.at_version, std::move(source),
                                std::move(arrow));
}

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

} // namespace

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
    idx_t capacity_rows = 0; /* of the last batch, so that the next needs no growing */
    unordered_map<idx_t, const shared_ptr<ArrowTypeExtensionData>> extensions;
    ClientProperties properties;
    atomic<bool> cancelled{false};
};

namespace
{

/* ---- results -------------------------------------------------------------------------------- */

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

/* True when the result ended in an error, which `err` then holds. */
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
    return Fail(err, error);
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
        query.chunk = query.result->FetchRaw();
        query.chunk_row = 0;
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

/* Types of which the engine would send its own bytes, or drop a part. */
void CheckResultType(const string &column, const LogicalType &result)
{
    auto lost = TypeVisitor::Contains(result, [](const LogicalType &type) {
        return type.id() == LogicalTypeId::TIME_TZ || type.id() == LogicalTypeId::BIT;
    });
    if (lost) {
        throw Refusal{LAKE_INVALID_ARGUMENT, "column " + column + " of the result is of type " +
                                                 result.ToString() +
                                                 ", which Arrow has no type for: cast it to "
                                                 "VARCHAR"};
    }
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

/* Gives a result's fields back what their types are marked with. */
void ApplyMarks(ArrowSchema &field, const LogicalType &type, const char *metadata)
{
    switch (type.id()) {
    case LogicalTypeId::STRUCT:
        if (HasMark(type, FILE_PROPERTY)) {
            field.metadata = metadata;
            return;
        }
        for (idx_t i = 0; i < StructType::GetChildCount(type); i++) {
            ApplyMarks(*field.children[i], StructType::GetChildType(type, i), metadata);
        }
        return;
    case LogicalTypeId::LIST:
        ApplyMarks(*field.children[0], ListType::GetChildType(type), metadata);
        return;
    case LogicalTypeId::ARRAY:
        ApplyMarks(*field.children[0], ArrayType::GetChildType(type), metadata);
        return;
    case LogicalTypeId::TIMESTAMP_NS:
        if (HasMark(type, UTC_PROPERTY)) {
            field.format = "tsn:UTC";
        }
        return;
    default:
        return;
    }
}

} // namespace

/* ---- the C face ----------------------------------------------------------------------------- */

lake_status sql_bridge_install(void *database, const struct sql_bridge_file_type *file_type,
                               struct lake_error *err)
{
    return guarded(err, [&] {
        auto &config = DBConfig::GetConfig(*DatabaseOf(database).instance);
        auto storage = make_shared_ptr<StorageExtension>();
        storage->attach = Attach;
        storage->create_transaction_manager = MakeTransactionManager;
        StorageExtension::Register(config, SQL_BRIDGE_CATALOG, std::move(storage));
        PlannerExtension planner;
        planner.post_bind_function = PostBind;
        planner.planner_info = make_shared_ptr<LakeInfo>(*file_type);
        PlannerExtension::Register(config, std::move(planner));
        RegisterCasts(*DatabaseOf(database).instance);
        return LAKE_OK;
    });
}

lake_status sql_bridge_lock(void *database, struct lake_error *err)
{
    return guarded(err, [&] {
        auto &instance = DatabaseOf(database);
        DBConfig::GetConfig(*instance.instance).replacement_scans.clear();
        Connection connection(instance);
        InfoOf(*connection.context)->locked = true;
        return LAKE_OK;
    });
}

lake_status sql_bridge_parse(const char *sql, size_t sql_bytes, size_t max_references,
                             struct sql_bridge_statement **out, struct lake_error *err)
{
    return guarded(err, [&] {
        *out = Parse(string(sql, sql_bytes), max_references).release();
        return LAKE_OK;
    });
}

size_t sql_bridge_reference_count(const struct sql_bridge_statement *statement)
{
    return statement->references.size();
}

void sql_bridge_reference_get(const struct sql_bridge_statement *statement, size_t index,
                              struct sql_bridge_reference *out)
{
    auto &found = statement->references.data()[index];
    *out = {found.catalog.c_str(), found.schema.c_str(), found.table.c_str(), found.at_version};
}

bool sql_bridge_is_explain(const struct sql_bridge_statement *statement)
{
    return statement->explain;
}

void sql_bridge_statement_free(struct sql_bridge_statement *statement)
{
    delete statement;
}

lake_status sql_bridge_prepare(void *database, struct sql_bridge_statement *statement_in,
                               const struct sql_bridge_table *tables, size_t table_count,
                               const char *default_schema, struct sql_bridge_query **out,
                               struct lake_error *err)
{
    size_t moved = 0;
    auto status = guarded(err, [&] {
        unique_ptr<sql_bridge_statement> statement(statement_in);
        auto query = make_uniq<sql_bridge_query>(DatabaseOf(database));
        auto &context = *query->connection.context;
        query->info = InfoOf(context);
        query->state = context.registered_state->GetOrCreate<LakeState>(STATE_NAME);
        context.RunFunctionInTransaction([&] {
            auto &catalog = Catalog::GetCatalog(context, SQL_BRIDGE_CATALOG);
            while (moved < table_count) {
                auto &table = tables[moved];
                auto source = make_shared_ptr<Source>(table.source);
                moved++;
                auto &schema = SchemaNamed(*query->state, catalog, table.schema);
                schema.tables.push_back(MakeTable(context, catalog, schema, table,
                                                  std::move(source),
                                                  query->info->file_type.extension_name));
            }
        });
        Qualify(*statement, *query->state, default_schema);
        query->prepared = query->connection.Prepare(std::move(statement->statement));
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
    return guarded(err, [&] {
        auto query = make_uniq<sql_bridge_query>(DatabaseOf(database));
        auto &context = *query->connection.context;
        query->info = InfoOf(context);
        query->state = context.registered_state->GetOrCreate<LakeState>(STATE_NAME);
        query->prepared = query->connection.Prepare(sql);
        return Finish(std::move(query), out, err);
    });
}

lake_status sql_bridge_type_name(void *database, const struct ArrowSchema *field, char *out,
                                 size_t out_bytes, struct lake_error *err)
{
    return guarded(err, [&] {
        Connection connection(DatabaseOf(database));
        auto type =
            ArrowType::GetArrowLogicalType(*connection.context, const_cast<ArrowSchema &>(*field));
        auto name = type->GetDuckType(true).ToString();
        if (name.size() >= out_bytes) {
            return lake_fail(err, LAKE_RESOURCE_EXHAUSTED, "the type's name is %zu bytes long",
                             name.size());
        }
        memcpy(out, name.c_str(), name.size() + 1);
        return LAKE_OK;
    });
}

lake_status sql_bridge_schema(const struct sql_bridge_query *query, struct ArrowSchema *out,
                              struct lake_error *err)
{
    return guarded(err, [&] {
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
    return guarded(err, [&] { return Next(*query, *limits, out, end, err); });
}

void sql_bridge_interrupt(struct sql_bridge_query *query)
{
    query->cancelled = true;
    query->connection.Interrupt();
}

void sql_bridge_query_free(struct sql_bridge_query *query)
{
    (void)guarded(nullptr, [&] {
        delete query;
        return LAKE_OK;
    });
}
