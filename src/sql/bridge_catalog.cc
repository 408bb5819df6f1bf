/* The catalog `lake` (SQL-3), read-only, and the check after binding (SQL-6). */
#include "bridge_internal.h"

#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/connection.hpp"
#include "duckdb/planner/expression/bound_subquery_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/tableref/bound_at_clause.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/storage/storage_extension.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

namespace sql_bridge
{
namespace
{

[[noreturn]] void ThrowReadOnly()
{
    throw PermissionException(sql_read_only_message);
}

} // namespace

optional_ptr<CatalogEntry> LakeSchema::LookupEntry(CatalogTransaction,
                                                   const EntryLookupInfo &lookup)
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

void LakeSchema::Scan(ClientContext &, CatalogType type,
                      const std::function<void(CatalogEntry &)> &callback)
{
    Scan(type, callback);
}

void LakeSchema::Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback)
{
    if (type == CatalogType::TABLE_ENTRY) {
        for (auto &table : tables) {
            callback(*table);
        }
    }
}

optional_ptr<CatalogEntry> LakeSchema::CreateIndex(CatalogTransaction, CreateIndexInfo &,
                                                   TableCatalogEntry &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateFunction(CatalogTransaction, CreateFunctionInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateTable(CatalogTransaction, BoundCreateTableInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateView(CatalogTransaction, CreateViewInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateSequence(CatalogTransaction, CreateSequenceInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateTableFunction(CatalogTransaction,
                                                           CreateTableFunctionInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateCopyFunction(CatalogTransaction,
                                                          CreateCopyFunctionInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreatePragmaFunction(CatalogTransaction,
                                                            CreatePragmaFunctionInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateCollation(CatalogTransaction, CreateCollationInfo &)
{
    ThrowReadOnly();
}

optional_ptr<CatalogEntry> LakeSchema::CreateType(CatalogTransaction, CreateTypeInfo &)
{
    ThrowReadOnly();
}

void LakeSchema::DropEntry(ClientContext &, DropInfo &)
{
    ThrowReadOnly();
}

void LakeSchema::Alter(CatalogTransaction, AlterInfo &)
{
    ThrowReadOnly();
}

namespace
{

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

/* ---- the check after binding ---- */

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
        auto ours = IsOurScan(get.function);
        if (!ours && !sql_table_function_allowed(StringUtil::Lower(get.function.name).c_str())) {
            throw PermissionException("table function %s is not available", get.function.name);
        }
        if (ours) {
            CheckScan(get);
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

} // namespace

shared_ptr<LakeInfo> InfoOf(ClientContext &context)
{
    for (auto &extension : PlannerExtension::Iterate(context)) {
        if (extension.post_bind_function == PostBind) {
            return shared_ptr_cast<PlannerExtensionInfo, LakeInfo>(extension.planner_info);
        }
    }
    throw InternalException("the bridge is not installed in this instance");
}

} // namespace sql_bridge

using namespace sql_bridge;

lake_status sql_bridge_install(void *database, const struct sql_bridge_file_type *file_type,
                               struct lake_error *err)
{
    return Guarded(err, [&] {
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
    return Guarded(err, [&] {
        auto &instance = DatabaseOf(database);
        DBConfig::GetConfig(*instance.instance).replacement_scans.clear();
        Connection connection(instance);
        InfoOf(*connection.context)->locked = true;
        return LAKE_OK;
    });
}
