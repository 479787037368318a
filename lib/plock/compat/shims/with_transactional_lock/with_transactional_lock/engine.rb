# frozen_string_literal: true

require "plock/compat/with_transactional_lock"
