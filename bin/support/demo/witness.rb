# frozen_string_literal: true

module Demo
  # Checks without the store that no other process is in the critical section. It locks a file.
  # The kernel gives that lock to one process at a time, and releases a dead process's lock at
  # once.
  class Witness
    def initialize(path)
      @file = File.open(path, File::RDWR | File::CREAT)
    end

    # True if no other process is inside.
    def enter = @file.flock(File::LOCK_EX | File::LOCK_NB) == 0

    def leave = @file.flock(File::LOCK_UN)
  end
end
