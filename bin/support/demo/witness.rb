# frozen_string_literal: true

module Demo
  # Checks that no other process is in the critical section, without asking the store. It uses a
  # lock on a file: the kernel gives it to one process at a time, and takes it from a dead process
  # at once.
  class Witness
    def initialize(path)
      @file = File.open(path, File::RDWR | File::CREAT)
    end

    # True if no other process is inside.
    def enter = @file.flock(File::LOCK_EX | File::LOCK_NB) == 0

    def leave = @file.flock(File::LOCK_UN)
  end
end
