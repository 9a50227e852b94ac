// Package middleware is what every request to the facade passes before its handler:
// one concern a file. The order in which they stand is the facade's to say.
//
// Begin comes first and makes the exchange, the one record of a request that the
// others read and fill. What a client sends is bounded here in size, time and rate,
// and nothing of it but its request id and its caller's name is ever logged.
package middleware
