package fileapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Answer is any answer of the API, as far as it could be read.
type Answer struct {
	// Status is StatusOK, StatusError, or what else the server says.
	Status string
	// Result is set when Status is StatusOK.
	Result json.RawMessage
	// Code is the error's, "" when there is none.
	Code    string
	HasMore bool
	Skipped int
}

// Decode reads an envelope. An error means that the body is none.
func Decode(body []byte) (Answer, error) {
	var raw struct {
		Status  string          `json:"status"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
		HasMore *bool           `json:"has_more"`
		Skipped *int            `json:"skipped"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return Answer{}, fmt.Errorf("decode the envelope: %w", err)
	}
	if raw.Status == "" && raw.Error == nil {
		return Answer{}, errors.New("decode the envelope: it has no status")
	}
	answer := Answer{Status: raw.Status, Result: raw.Result, HasMore: value(raw.HasMore), Skipped: max(value(raw.Skipped), 0)}
	var fault struct {
		Code string `json:"code"`
	}
	// An error that is no object has no code; older servers sent a bare text.
	if json.Unmarshal(raw.Error, &fault) == nil {
		answer.Code = fault.Code
	}
	return answer, nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Entries returns the result of PathList.
func (a Answer) Entries() ([]Entry, error) {
	result := bytes.TrimSpace(a.Result)
	if bytes.HasPrefix(result, []byte("{")) {
		var wrapped struct {
			Entries json.RawMessage `json:"entries"`
		}
		if err := json.Unmarshal(result, &wrapped); err != nil {
			return nil, fmt.Errorf("decode the list: %w", err)
		}
		result = wrapped.Entries
	}
	var entries []Entry
	if !bytes.HasPrefix(result, []byte("[")) {
		return nil, errors.New("decode the list: the result is no array")
	}
	if err := json.Unmarshal(result, &entries); err != nil {
		return nil, fmt.Errorf("decode the list: %w", err)
	}
	return entries, nil
}

// Entry returns the result of PathStat.
func (a Answer) Entry() (Entry, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(a.Result), []byte("{")) {
		return Entry{}, errors.New("decode the entry: the result is no object")
	}
	var entry Entry
	if err := json.Unmarshal(a.Result, &entry); err != nil {
		return Entry{}, fmt.Errorf("decode the entry: %w", err)
	}
	return entry, nil
}

// Text returns the result of PathRead.
func (a Answer) Text() (string, error) {
	var text *string
	if err := json.Unmarshal(a.Result, &text); err != nil || text == nil {
		return "", errors.New("decode the text: the result is no string")
	}
	return *text, nil
}

// UnmarshalJSON reads every form of an entry that servers are known to send: the
// kind as isDir, is_dir or type. An entry that does not say its kind is an error.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var raw struct {
		Name    string   `json:"name"`
		URI     string   `json:"uri"`
		RelPath string   `json:"rel_path"`
		IsDir   *bool    `json:"isDir"`
		IsDir2  *bool    `json:"is_dir"`
		Type    string   `json:"type"`
		Size    *float64 `json:"size"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*e = Entry{Name: raw.Name, URI: raw.URI, RelPath: raw.RelPath}
	switch {
	case raw.IsDir != nil:
		e.IsDir = *raw.IsDir
	case raw.IsDir2 != nil:
		e.IsDir = *raw.IsDir2
	case raw.Type == "dir", raw.Type == "directory", raw.Type == "folder":
		e.IsDir = true
	case raw.Type != "file":
		return errors.New("entry says neither file nor directory")
	}
	// A size is a whole number of bytes that a float holds exactly.
	if size := value(raw.Size); size > 0 && size < 1<<53 {
		e.Size = int64(size)
	}
	return nil
}
