# frozen_string_literal: true

module Plock
  module CLI
    # The exit statuses of the command. 64 to 75 are as in sysexits.h, 126 and above as in shells.
    # `plock run` also exits with the status of the command that it runs.
    module ExitStatus
      OK = 0
      HELD = 1         # status: the key is held
      NOT_BROKEN = 1   # break: the key was free, the user refused, or the holders changed
      DIFFERENT = 1    # secret: other clients use a different secret
      ENDANGERED = 1   # doctor: something endangers exclusion
      USAGE = 64       # the arguments are invalid
      UNAVAILABLE = 69 # the store cannot be used
      SOFTWARE = 70    # a bug in plock
      SYSTEM = 71      # the operating system refused something
      BUSY = 75        # another holder had the key until the wait ended
      LOST = 76        # the lease was lost while the command ran
      CANNOT_RUN = 126 # the command cannot be run, as in env(1) and shells
      NOT_FOUND = 127
      SIGNALLED = 128  # plus the number of the signal that ended the command
    end
  end
end
