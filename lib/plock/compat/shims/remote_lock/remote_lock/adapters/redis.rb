# frozen_string_literal: true

require "plock/compat/remote_lock"
