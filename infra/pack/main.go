// Command pack zips built functions for Lambda: FOLDER/consumer/bootstrap becomes FOLDER/consumer.zip, and so on. Equal
// executables give equal zips. For each function, it prints the name, the upload key, the SHA-256 of the zip, and the
// path of the zip. The SHA-256 is in base64, as S3 stores it. The key contains the zip's hash, so CloudFormation does
// not update a function that has not changed.
//
//	go run ./infra/pack .bin/functions/arm64
//	go run ./infra/pack ../library/build .bin/functions/arm64
//
// With several folders, each function comes from the first folder that contains it. So name the
// folder of your own functions first.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
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
		fmt.Fprintln(os.Stderr, "expected folders with built functions, such as .bin/functions/arm64")
		os.Exit(2)
	}
	if err := pack(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "packing the functions:", err)
		os.Exit(1)
	}
}

// pack zips each function in the folders once and writes a line for it.
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
		if _, err := fmt.Fprintf(out, "%s %s-%s.zip %s %s\n", function, function, hex.EncodeToString(sum[:8]), base64.StdEncoding.EncodeToString(sum[:]), path); err != nil {
			return err
		}
	}
	return nil
}

// packedAt is the modification time in the zip, so that equal executables give equal zips. It is the earliest time that
// a zip can contain.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// zipOf returns a zip with the executable named bootstrap, as Lambda requires.
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
