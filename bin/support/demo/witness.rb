# frozen_string_literal: true

module Demo
  # Sees whether anybody else is in the critical section, without asking the store: by a lock on a
  # file, which the kernel gives to one process at a time, and takes back at once from a process
  # that dies.
  class Witness
    def initialize(path)
      @file = File.open(path, File::RDWR | File::CREAT)
    end

    # True where nobody else is inside.
    def enter = @file.flock(File::LOCK_EX | File::LOCK_NB) == 0

    def leave = @file.flock(File::LOCK_UN)
  end
end
