// The Go Flight SQL client, as tools embed it, for test_flight_sql_clients.py.
//
//	go_client [-token T] [-user U -password P] [-ca FILE] ADDRESS COMMAND [ARGUMENT…]
//
//	query SQL OUT         runs a statement and writes its rows to OUT as an Arrow stream
//	prepared SQL OUT      the same through a prepared statement
//	update SQL            asks for a change
//	catalogs|schemas|tables|types|info OUT
//
// Prints one JSON object: {"rows", "batches"}, or {"code", "message"} and ends with 1.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var (
	token    = flag.String("token", "", "bearer token")
	user     = flag.String("user", "", "user of the handshake")
	password = flag.String("password", "", "password of the handshake")
	ca       = flag.String("ca", "", "PEM file of the authority: TLS")
)

type answer struct {
	Rows    int64  `json:"rows"`
	Batches int    `json:"batches"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

func transport() (credentials.TransportCredentials, error) {
	if *ca == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(*ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + *ca)
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool}), nil
}

func connect(ctx context.Context, address string) (*flightsql.Client, context.Context, error) {
	secure, err := transport()
	if err != nil {
		return nil, nil, err
	}
	client, err := flightsql.NewClient(address, nil, nil, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, nil, err
	}
	if *user != "" {
		ctx, err = client.Client.AuthenticateBasicToken(ctx, *user, *password)
		if err != nil {
			return nil, nil, err
		}
	}
	if *token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+*token)
	}
	return client, ctx, nil
}

// Writes every endpoint's rows to path.
func save(ctx context.Context, client *flightsql.Client, info *flight.FlightInfo, path string) (answer, error) {
	var result answer
	file, err := os.Create(path)
	if err != nil {
		return result, err
	}
	defer file.Close()
	for _, endpoint := range info.Endpoint {
		reader, err := client.DoGet(ctx, endpoint.Ticket)
		if err != nil {
			return result, err
		}
		defer reader.Release()
		writer := ipc.NewWriter(file, ipc.WithSchema(reader.Schema()))
		for reader.Next() {
			if err := writer.Write(reader.RecordBatch()); err != nil {
				return result, err
			}
			result.Rows += reader.RecordBatch().NumRows()
			result.Batches++
		}
		if err := reader.Err(); err != nil {
			return result, err
		}
		if err := writer.Close(); err != nil {
			return result, err
		}
	}
	return result, nil
}

func describe(ctx context.Context, client *flightsql.Client, arguments []string) (*flight.FlightInfo, error) {
	switch arguments[0] {
	case "query":
		return client.Execute(ctx, arguments[1])
	case "catalogs":
		return client.GetCatalogs(ctx)
	case "schemas":
		return client.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{})
	case "tables":
		return client.GetTables(ctx, &flightsql.GetTablesOpts{IncludeSchema: true})
	case "types":
		return client.GetTableTypes(ctx)
	case "info":
		return client.GetSqlInfo(ctx, nil)
	}
	return nil, fmt.Errorf("no command %q", arguments[0])
}

func run(ctx context.Context, client *flightsql.Client, arguments []string) (answer, error) {
	switch arguments[0] {
	case "prepared":
		prepared, err := client.Prepare(ctx, arguments[1])
		if err != nil {
			return answer{}, err
		}
		info, err := prepared.Execute(ctx)
		if err != nil {
			return answer{}, err
		}
		result, err := save(ctx, client, info, arguments[2])
		if err != nil {
			return answer{}, err
		}
		return result, prepared.Close(ctx)
	case "update":
		rows, err := client.ExecuteUpdate(ctx, arguments[1])
		return answer{Rows: rows}, err
	}
	info, err := describe(ctx, client, arguments)
	if err != nil {
		return answer{}, err
	}
	return save(ctx, client, info, arguments[len(arguments)-1])
}

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var result answer
	client, ctx, err := connect(ctx, flag.Arg(0))
	if err == nil {
		result, err = run(ctx, client, flag.Args()[1:])
	}
	if err != nil {
		result = answer{Code: status.Code(err).String(), Message: status.Convert(err).Message()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
	if result.Code != "" {
		os.Exit(1)
	}
}
