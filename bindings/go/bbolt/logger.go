package bbolt

import (
	"fmt"
	"log"
	"os"
)

// Logger receives messages of a database.
type Logger interface {
	Debug(v ...any)
	Debugf(format string, v ...any)
	Error(v ...any)
	Errorf(format string, v ...any)
	Info(v ...any)
	Infof(format string, v ...any)
	Warning(v ...any)
	Warningf(format string, v ...any)
	Fatal(v ...any)
	Fatalf(format string, v ...any)
	Panic(v ...any)
	Panicf(format string, v ...any)
}

// discard is the Logger of a database without one.
type discard struct{}

func (discard) Debug(...any)                   {}
func (discard) Debugf(string, ...any)          {}
func (discard) Error(...any)                   {}
func (discard) Errorf(string, ...any)          {}
func (discard) Info(...any)                    {}
func (discard) Infof(string, ...any)           {}
func (discard) Warning(...any)                 {}
func (discard) Warningf(string, ...any)        {}
func (discard) Fatal(v ...any)                 { fmt.Fprintln(os.Stderr, v...); os.Exit(1) }
func (discard) Fatalf(format string, v ...any) { discard{}.Fatal(fmt.Sprintf(format, v...)) }
func (discard) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (discard) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

// DefaultLogger writes the messages to a log of the standard library.
type DefaultLogger struct {
	*log.Logger
	debug bool
}

// EnableTimestamps adds the time to each message.
func (l *DefaultLogger) EnableTimestamps() { l.SetFlags(l.Flags() | log.Ldate | log.Ltime) }

// EnableDebug writes debug messages, too.
func (l *DefaultLogger) EnableDebug() { l.debug = true }

func (l *DefaultLogger) write(level string, v ...any) { l.Print(level, ": ", fmt.Sprint(v...)) }

func (l *DefaultLogger) Debug(v ...any) {
	if l.debug {
		l.write("DEBUG", v...)
	}
}

func (l *DefaultLogger) Debugf(format string, v ...any)   { l.Debug(fmt.Sprintf(format, v...)) }
func (l *DefaultLogger) Error(v ...any)                   { l.write("ERROR", v...) }
func (l *DefaultLogger) Errorf(format string, v ...any)   { l.write("ERROR", fmt.Sprintf(format, v...)) }
func (l *DefaultLogger) Info(v ...any)                    { l.write("INFO", v...) }
func (l *DefaultLogger) Infof(format string, v ...any)    { l.write("INFO", fmt.Sprintf(format, v...)) }
func (l *DefaultLogger) Warning(v ...any)                 { l.write("WARN", v...) }
func (l *DefaultLogger) Warningf(format string, v ...any) { l.write("WARN", fmt.Sprintf(format, v...)) }
func (l *DefaultLogger) Fatal(v ...any)                   { l.write("FATAL", v...); os.Exit(1) }
func (l *DefaultLogger) Fatalf(format string, v ...any)   { l.Fatal(fmt.Sprintf(format, v...)) }
func (l *DefaultLogger) Panic(v ...any)                   { l.Logger.Panic(v...) }
func (l *DefaultLogger) Panicf(format string, v ...any)   { l.Logger.Panicf(format, v...) }
