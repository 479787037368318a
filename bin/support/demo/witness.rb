# frozen_string_literal: true

module Demo
  # Checks, independently of the store, that only one process is in the critical section. To do so,
  # the process inside locks a file. The kernel grants a file lock to one process at a time, and
  # releases a dead process's lock at once.
  class Witness
    def initialize(path)
      @file = File.open(path, File::RDWR | File::CREAT)
    end

    # True if no other process is inside.
    def enter = @file.flock(File::LOCK_EX | File::LOCK_NB) == 0

    def leave = @file.flock(File::LOCK_UN)
  end
end
