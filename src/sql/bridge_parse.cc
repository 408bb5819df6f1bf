/* Parsing: the references of a statement, and what makes it be refused (SQL-5, SQL-6, SQL-7). */
#include "bridge_internal.h"

#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/statement/explain_statement.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/list.hpp"

namespace sql_bridge
{

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

/* An internal error goes on with the engine's advice to its authors and a stack trace. */
lake_status Fail(struct lake_error *err, const ErrorData &error)
{
    auto status = StatusOf(error.Type());
    auto message = error.Message();
    if (status == LAKE_INTERNAL) {
        message = message.substr(0, message.find("\nThis error signals"));
        message = message.substr(0, message.find("\n\nStack Trace:"));
    }
    return lake_fail(err, status, "%s", message.c_str());
}

namespace
{

const char *const AT_MESSAGE =
    "a table's version is named by AT (VERSION => n) with a number from 1, and by nothing else: "
    "the table's history says when each version was made, its tags which one they name";

/* Whether there is an "AT (word =>" of which the engine's parser knows nothing. */
bool AsksForAnotherAt(const string &sql)
{
    auto lower = StringUtil::Lower(sql);
    auto skip = [&](idx_t at) {
        return MinValue(lower.find_first_not_of(" \t\r\n", at), lower.size());
    };
    for (auto at = lower.find(" at"); at != string::npos; at = lower.find(" at", at + 1)) {
        auto open = skip(at + 3);
        if (open == lower.size() || lower[open] != '(') {
            continue;
        }
        auto word = skip(open + 1);
        auto end = word;
        while (end < lower.size() && StringUtil::CharacterIsAlpha(lower[end])) {
            end++;
        }
        auto name = lower.substr(word, end - word);
        if (!name.empty() && name != "version" && name != "timestamp" &&
            lower.compare(skip(end), 2, "=>") == 0) {
            return true;
        }
    }
    return false;
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
    bool repeatable = true;

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
        repeatable = repeatable && !select.sample;
        if (select.from_table) {
            Table(*select.from_table);
        }
    }

    void Table(TableRef &ref)
    {
        Deeper deeper(*this);
        repeatable = repeatable && !ref.sample;
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
        string why;
        auto &expr = ref.at_clause->ExpressionMutable();
        if (!SameName(ref.at_clause->Unit(), "version") ||
            expr->GetExpressionClass() != ExpressionClass::CONSTANT ||
            !expr->Cast<ConstantExpression>().value.DefaultTryCastAs(LogicalType::UBIGINT, version,
                                                                     &why) ||
            version.IsNull() || version.GetValue<uint64_t>() == 0) {
            throw Refusal{LAKE_INVALID_ARGUMENT, AT_MESSAGE};
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
        repeatable = repeatable && sql_function_repeatable(name.c_str());
    }

    /* CURRENT_DATE and its kind come as columns. A column that is called so is not missed. */
    void Column(const ColumnRefExpression &column)
    {
        auto name = StringUtil::Lower(column.column_names.back());
        if (StringUtil::StartsWith(name, "current_") || StringUtil::StartsWith(name, "local")) {
            repeatable = false;
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
        case ExpressionClass::COLUMN_REF:
            Column(expr.Cast<ColumnRefExpression>());
            break;
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

unique_ptr<sql_bridge_statement> Parse(const string &sql, idx_t max_references)
{
    Parser parser;
    try {
        parser.ParseQuery(sql);
    } catch (const std::exception &ex) {
        ErrorData error(ex);
        if (error.Type() == ExceptionType::PARSER || error.Type() == ExceptionType::SYNTAX) {
            if (AsksForAnotherAt(sql)) {
                throw Refusal{LAKE_INVALID_ARGUMENT, AT_MESSAGE};
            }
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
    result->repeatable = walk.repeatable && !result->explain;
    return result;
}

/* Subqueries are left alone: what they give is one value. */
void CheckOneValue(ParsedExpression &expr)
{
    if (expr.GetExpressionClass() == ExpressionClass::WINDOW) {
        throw Refusal{LAKE_INVALID_ARGUMENT, "the window function " +
                                                 expr.Cast<WindowExpression>().function_name +
                                                 " belongs into a subquery"};
    }
    if (expr.GetExpressionClass() == ExpressionClass::FUNCTION) {
        auto name = StringUtil::Lower(expr.Cast<FunctionExpression>().function_name);
        if (sql_function_makes_rows(name.c_str())) {
            throw Refusal{LAKE_INVALID_ARGUMENT, name + " makes rows, and belongs into a subquery"};
        }
    }
    ParsedExpressionIterator::EnumerateChildren(expr, [](unique_ptr<ParsedExpression> &child) {
        if (child) {
            CheckOneValue(*child);
        }
    });
}

/* The list of what was between the brackets. */
FunctionExpression &ListOf(SelectStatement &statement)
{
    if (statement.node->type == QueryNodeType::SELECT_NODE) {
        auto &list = statement.node->Cast<SelectNode>().select_list;
        if (list.size() == 1 && list[0]->GetExpressionClass() == ExpressionClass::FUNCTION &&
            SameName(list[0]->Cast<FunctionExpression>().function_name, "list_value")) {
            return list[0]->Cast<FunctionExpression>();
        }
    }
    throw Refusal{LAKE_INVALID_ARGUMENT, "it is more than an expression"};
}

} // namespace
} // namespace sql_bridge

using namespace sql_bridge;

lake_status sql_bridge_expression_check(const struct sql_bridge_statement *statement,
                                        struct lake_error *err)
{
    return Guarded(err, [&] {
        auto &list = ListOf(statement->statement->Cast<SelectStatement>());
        if (list.children.empty()) {
            throw Refusal{LAKE_INVALID_ARGUMENT, "it is empty"};
        }
        if (list.children.size() > 1) {
            throw Refusal{LAKE_INVALID_ARGUMENT, "it is " + to_string(list.children.size()) +
                                                     " expressions; each column is set on its own"};
        }
        CheckOneValue(*list.children[0]);
        return LAKE_OK;
    });
}

lake_status sql_bridge_parse(const char *sql, size_t sql_bytes, size_t max_references,
                             struct sql_bridge_statement **out, struct lake_error *err)
{
    return Guarded(err, [&] {
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
