// Command pack zips built functions for Lambda: FOLDER/consumer/bootstrap becomes FOLDER/consumer.zip, and so on. The same
// executables give the same bytes. For each function it prints its name, the key under which to upload its zip, and the zip. The key
// has the zip's hash in it: a function that has not changed keeps its key, and CloudFormation leaves it alone.
//
//	go run ./infra/pack .bin/functions/arm64
//	go run ./infra/pack ../library/build .bin/functions/arm64
//
// With several folders, a function comes from the first that has it: one of your own stands before one of this repository.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "expected the folders of the built functions, such as .bin/functions/arm64")
		os.Exit(2)
	}
	if err := pack(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "packing the functions:", err)
		os.Exit(1)
	}
}

// pack zips the functions in the folders, each once, and writes a line for each.
func pack(folders []string, out io.Writer) error {
	executables := map[string]string{}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "*", "bootstrap"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("expected %s/<function>/bootstrap, found none: build them (make functions builds Settle's)", folder)
		}
		for _, executable := range found {
			function := filepath.Base(filepath.Dir(executable))
			executables[function] = cmp.Or(executables[function], executable)
		}
	}
	for _, function := range slices.Sorted(maps.Keys(executables)) {
		executable := executables[function]
		content, err := os.ReadFile(executable)
		if err != nil {
			return err
		}
		zipped, err := zipOf(content)
		if err != nil {
			return fmt.Errorf("%s: %w", executable, err)
		}
		path := filepath.Dir(executable) + ".zip"
		if err := os.WriteFile(path, zipped, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(zipped)
		if _, err := fmt.Fprintf(out, "%s %s-%s.zip %s\n", function, function, hex.EncodeToString(sum[:8]), path); err != nil {
			return err
		}
	}
	return nil
}

// packedAt stands for when the executable was built. It is the first time that a zip can tell.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// zipOf returns a zip with an executable named bootstrap, as Lambda wants it.
func zipOf(executable []byte) ([]byte, error) {
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate, Modified: packedAt}
	header.SetMode(0o755)
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	file, err := archive.CreateHeader(header)
	if err == nil {
		_, err = file.Write(executable)
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
