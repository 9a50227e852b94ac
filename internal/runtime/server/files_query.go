package server

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"

	"github.com/agentruntime/operator/internal/contentstore"
	"github.com/agentruntime/operator/internal/fileapi"
	"github.com/agentruntime/operator/internal/runtimeapi"
)

// listOptions are what a list may be asked for.
type listOptions struct {
	recursive bool
	limit     int
}

// listOptionsOf reads a list's parameters. Of those that are not served, the ones
// that would change what an answer means are refused, the others ignored.
func listOptionsOf(query url.Values) (listOptions, error) {
	recursive, err := boolOf(query, fileapi.ParamRecursive)
	if err != nil {
		return listOptions{}, err
	}
	simple, err := boolOf(query, fileapi.ParamSimple)
	if err != nil {
		return listOptions{}, err
	}
	offset, err := intOf(query, fileapi.ParamOffset, 0, 0)
	if err != nil {
		return listOptions{}, err
	}
	if simple || offset > 0 || query.Has(fileapi.ParamTags) {
		return listOptions{}, refuse(runtimeapi.CodeInvalidArgument, "simple, offset and tags are not supported here.")
	}
	switch query.Get(fileapi.ParamOutput) {
	case "", fileapi.OutputAgent, fileapi.OutputOriginal:
	default:
		return listOptions{}, badParameter(fileapi.ParamOutput, "must be agent or original")
	}
	limit, err := intOf(query, fileapi.ParamNodeLimit, 1, fileapi.DefaultListEntries)
	if err != nil {
		return listOptions{}, err
	}
	limit, err = intOf(query, fileapi.ParamLimit, 1, limit)
	return listOptions{recursive: recursive, limit: min(limit, contentstore.MaxListEntries)}, err
}

// lineRange is the lines of a file that are asked for; a negative limit means all.
type lineRange struct {
	offset, limit int
}

func lineRangeOf(query url.Values) (lineRange, error) {
	offset, err := intOf(query, fileapi.ParamOffset, 0, 0)
	if err != nil {
		return lineRange{}, err
	}
	limit, err := intOf(query, fileapi.ParamLimit, -1, -1)
	return lineRange{offset: offset, limit: limit}, err
}

// of returns the lines, each with its end.
func (l lineRange) of(text []byte) []byte {
	text = text[linesLength(text, l.offset):]
	if l.limit < 0 {
		return text
	}
	return text[:linesLength(text, l.limit)]
}

// linesLength returns how many bytes the first n lines are.
func linesLength(text []byte, n int) int {
	length := 0
	for ; n > 0 && length < len(text); n-- {
		end := bytes.IndexByte(text[length:], '\n')
		if end < 0 {
			return len(text)
		}
		length += end + 1
	}
	return length
}

func boolOf(query url.Values, name string) (bool, error) {
	if !query.Has(name) {
		return false, nil
	}
	value, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, badParameter(name, "must be true or false")
	}
	return value, nil
}

func intOf(query url.Values, name string, least, unset int) (int, error) {
	if !query.Has(name) {
		return unset, nil
	}
	value, err := strconv.Atoi(query.Get(name))
	if err != nil || value < least {
		return 0, badParameter(name, fmt.Sprintf("must be a whole number, at least %d", least))
	}
	return value, nil
}

func badParameter(name, why string) *httpError {
	return refuse(runtimeapi.CodeInvalidArgument, "Invalid request parameters: query."+name+": "+why)
}
