package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/runtimeapi"
	"github.com/agentruntime/operator/internal/viking"
)

// Bounds of the file routes.
const (
	// fileTimeout bounds the work for one request; its answer has bodyTimeout more.
	fileTimeout = 20 * time.Second
	// heavyFiles bounds how many lists and reads, which may hold megabytes, run at
	// once; others wait for their turn within fileTimeout.
	heavyFiles = 16
)

// Content is the files that the file routes show; *contentstore.Local is one.
type Content interface {
	contentstore.Reader
	// Children is List without what lies deeper than the directory itself.
	Children(ctx context.Context, who contentstore.Principal, uri viking.URI, limit int) (contentstore.Listing, error)
}

// files serves the part of OpenViking's file API that reads (package fileapi), on
// behalf of the same users as the Runtime protocol.
type files struct {
	server  *Server
	content Content
	heavy   chan struct{}
}

// fileRequest is a well-formed question of a known user.
type fileRequest struct {
	who   contentstore.Principal
	uri   viking.URI
	query url.Values
}

// operation answers a file request with the body of a 200.
type operation func(ctx context.Context, req fileRequest) ([]byte, error)

// fileRoutes adds the file routes, if there is content to show.
func (s *Server) fileRoutes(mux *http.ServeMux) {
	if s.content == nil {
		return
	}
	f := &files{server: s, content: s.content, heavy: make(chan struct{}, heavyFiles)}
	mux.HandleFunc("GET "+fileapi.PathStat, f.handle("stat", f.stat))
	mux.HandleFunc("GET "+fileapi.PathList, f.handle("ls", f.inTurn(f.list)))
	mux.HandleFunc("GET "+fileapi.PathRead, f.handle("read", f.inTurn(f.read)))
	for _, path := range []string{fileapi.PathStat, fileapi.PathList, fileapi.PathRead} {
		mux.HandleFunc(path, methodNotAllowed(http.MethodGet))
	}
}

func (f *files) handle(name string, do operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), fileTimeout)
		defer cancel()
		req, err := f.request(r.WithContext(ctx))
		var body []byte
		if err == nil {
			body, err = do(ctx, req)
		}
		f.server.manager.metrics.countFile(name, err)
		if err != nil {
			f.fail(w, req.uri, err)
			return
		}
		writeBody(w, http.StatusOK, body)
	}
}

// request finds who asks, and for what.
func (f *files) request(r *http.Request) (fileRequest, error) {
	who, err := f.server.identity.identify(r)
	if err != nil {
		return fileRequest{}, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fileRequest{}, refuse(runtimeapi.CodeInvalidArgument, "The query is malformed.")
	}
	if len(query[fileapi.ParamURI]) != 1 {
		return fileRequest{}, refuse(runtimeapi.CodeInvalidArgument, "Invalid request parameters: query.uri: must be given once")
	}
	uri, fault := viking.Caller{User: who.user}.Parse(fileapi.ParamURI, query.Get(fileapi.ParamURI))
	if fault != nil {
		return fileRequest{}, refuse(codeInvalidURI, fault.Error())
	}
	return fileRequest{who: contentstore.Principal{Account: who.account, User: who.user}, uri: uri, query: query}, nil
}

// inTurn bounds how many of the operations run at once.
func (f *files) inTurn(do operation) operation {
	return func(ctx context.Context, req fileRequest) ([]byte, error) {
		select {
		case f.heavy <- struct{}{}:
		case <-ctx.Done():
			return nil, refuse(runtimeapi.CodeUnavailable, "Too many files are being read.")
		}
		defer func() { <-f.heavy }()
		return do(ctx, req)
	}
}

func (f *files) stat(ctx context.Context, req fileRequest) ([]byte, error) {
	info, err := f.content.Stat(ctx, req.who, req.uri)
	if err != nil {
		return nil, err
	}
	return encodeFile(fileapi.Success{Status: fileapi.StatusOK, Result: entryOf(info)})
}

func entryOf(info contentstore.Info) fileapi.Entry {
	name := info.URI[strings.LastIndexByte(info.URI, '/')+1:]
	return fileapi.Entry{Name: name, URI: info.URI, RelPath: info.Path, IsDir: info.Dir, Size: info.Size}
}

func (f *files) list(ctx context.Context, req fileRequest) ([]byte, error) {
	options, err := listOptionsOf(req.query)
	if err != nil {
		return nil, err
	}
	find := f.content.Children
	if options.recursive {
		find = f.content.List
	}
	listing, err := find(ctx, req.who, req.uri, options.limit)
	if err != nil {
		return nil, err
	}
	return encodeListing(listing)
}

// listEnvelope is room for what stands around the entries of a list.
const listEnvelope = 1 << 10

// encodeListing cuts the listing short where the answer would get too large.
func encodeListing(listing contentstore.Listing) ([]byte, error) {
	entries := make([]json.RawMessage, 0, len(listing.Entries))
	size := listEnvelope
	for _, info := range listing.Entries {
		entry, err := encodeFile(entryOf(info))
		if err != nil {
			return nil, err
		}
		if size += len(entry) + 1; size > fileapi.MaxListBytes {
			listing.Truncated = true
			break
		}
		entries = append(entries, entry)
	}
	return encodeFile(fileapi.ListSuccess{
		Success: fileapi.Success{Status: fileapi.StatusOK, Result: entries},
		HasMore: listing.Truncated,
		Skipped: listing.Skipped,
	})
}

func (f *files) read(ctx context.Context, req fileRequest) ([]byte, error) {
	lines, err := lineRangeOf(req.query)
	if err != nil {
		return nil, err
	}
	content, err := f.content.Read(ctx, req.who, req.uri, fileapi.MaxReadBytes)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(content) {
		return nil, refuse(runtimeapi.CodeInvalidArgument, req.uri.String()+": is not UTF-8 text")
	}
	return encodeFile(fileapi.Success{Status: fileapi.StatusOK, Result: string(lines.of(content))})
}

// encodeFile is JSON that leaves text as readable as it may be.
func encodeFile(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
