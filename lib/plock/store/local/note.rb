# frozen_string_literal: true

require_relative "../../background"
require_relative "../../clock"
require_relative "../../errors"

module Plock
  # A short text in a file beside the file of a local store. Only this user can write to either
  # file. A process locks the note's file while it reads or writes the note.
  #
  # @api private
  class LocalNote
    MODE = 0o600
    FOREIGN_WRITE = 0o022 # group and others
    BYTES_MAX = 4096

    # Seconds to wait for another process that has locked the file, and seconds between two
    # attempts.
    PATIENCE_S = 1.0
    LOOK_S = 0.001

    CODES = {
      Errno::EMFILE => :descriptors, Errno::ENFILE => :descriptors, Errno::ENOMEM => :no_memory
    }.freeze
    private_constant :MODE, :FOREIGN_WRITE, :BYTES_MAX, :PATIENCE_S, :LOOK_S, :CODES

    def initialize(path)
      @path = path
    end

    # Keeps the note if there is none yet, or if `replace` is true.
    #
    # @param note [String] an empty String only reads the existing note
    # @return [String, nil] the note that is kept
    def keep(note, replace) = apart { keep_in_file(note, replace) }

    private

    # Runs the block so that a signal handler can also keep a note during this call. Ruby runs the
    # handlers on the main thread. So a call on the main thread leaves the block to another thread.
    # The handler then waits for that thread to unlock the file, and not for the code that it has
    # interrupted.
    def apart(&block)
      thread =
        begin
          Background.launch(&block) if Thread.current == Thread.main
        rescue ThreadError
          nil # there are too many threads
        end
      thread ? thread.value : yield
    rescue Error => e
      e.set_backtrace(e.backtrace + caller) if thread # the other thread's frames, and the caller's
      raise
    end

    def keep_in_file(note, replace)
      open_file(note.empty? ? 0 : File::CREAT) do |file|
        kept = file.read(BYTES_MAX).to_s.chomp
        next (kept unless kept.empty?) if note.empty? || !(kept.empty? || replace)

        write(file, note)
        note
      end
    rescue Errno::ENOENT
      nil
    rescue SystemCallError => e
      raise UnavailableError.new(
        "the local store's note #{@path}: #{e.message}", code: CODES.fetch(e.class, :io)
      )
    end

    def open_file(create)
      flags = File::RDWR | File::NOFOLLOW | File::NONBLOCK | create
      File.open(@path, flags, MODE) do |file|
        check(file.stat)
        lock(file)
        yield file
      ensure
        # closing the file does not unlock it if a forked child also has it open
        file.flock(File::LOCK_UN)
      end
    rescue Errno::ELOOP
      refuse("it is a symbolic link")
    end

    def check(stat)
      refuse("it is no file") unless stat.file?
      refuse("it belongs to another user") unless stat.owned?
      refuse("others can write to it") if stat.mode.anybits?(FOREIGN_WRITE)
    end

    def lock(file)
      deadline = Clock.now + PATIENCE_S
      until file.flock(File::LOCK_EX | File::LOCK_NB)
        if Clock.now > deadline
          raise UnavailableError.new(
            "another process has had #{@path} for a second: is it stopped?", code: :silent
          )
        end

        sleep(LOOK_S)
      end
    end

    # Writes first and truncates afterwards, so that the file is never empty in between.
    def write(file, note)
      text = "#{note}\n"
      file.chmod(MODE) # the umask may have removed the owner's permissions
      file.pwrite(text, 0)
      file.truncate(text.bytesize)
    end

    def refuse(why)
      raise ConfigurationError, "the local store's note #{@path} cannot be used: #{why}"
    end
  end
end
