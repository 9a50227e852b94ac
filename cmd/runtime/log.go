package main

import (
	"errors"
	"io"
	"log/slog"
)

// logHandler makes the log's handler, or says which log flag is wrong.
func (o *Options) logHandler(w io.Writer) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.LogLevel)); err != nil {
		return nil, errors.New("--log-level must be debug, info, warn or error")
	}
	opts := &slog.HandlerOptions{Level: level}
	switch o.LogFormat {
	case "json":
		return slog.NewJSONHandler(w, opts), nil
	case "text":
		return slog.NewTextHandler(w, opts), nil
	default:
		return nil, errors.New("--log-format must be json or text")
	}
}
