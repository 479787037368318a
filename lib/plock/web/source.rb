# frozen_string_literal: true

require_relative "../survey"
require_relative "history"

module Plock
  class Web
    # One store on the pages. It is opened at the first request, so that an application may
    # configure plock after it has mounted the pages.
    #
    # @api private
    class Source
      FINDINGS_S = 30.0 # how long the doctor's findings are kept
      private_constant :FINDINGS_S

      # @return [String] the name in links and titles
      attr_reader :name

      attr_reader :history

      # @param store [Locking, nil] nil: the default store
      def initialize(name, store, all_namespaces)
        @name = name
        @store = store
        @all_namespaces = all_namespaces
        @history = History.new
        @mutex = Mutex.new
        @doctor = BriefMutex.new # not @mutex, because an examination can take a long time
      end

      # @raise [Error] the store cannot be opened
      def store = @store || Plock.store

      # @raise [Error] the store cannot be opened
      def survey
        store = self.store
        @mutex.synchronize do
          next @survey if @survey && @surveyed.equal?(store) # Plock.reset! replaces the store

          @surveyed = store
          @survey =
            Survey.new(store, all_namespaces: @all_namespaces) { |whole| @history.add(whole) }
        end
      end

      def all_namespaces? = @all_namespaces

      # The doctor's findings, without the check that acquires a lock.
      #
      # @return [Array(Time, Array<CLI::Doctor::Finding>)]
      # @raise [Error] the request to the store failed
      def findings
        require_relative "../cli/doctor/examination"
        @doctor.hold do
          if @findings.nil? || Clock.now - @found_at > FINDINGS_S
            examination = CLI::Doctor::Examination
            @findings = [Time.now, examination.of(store, except: examination::ACTIVE)]
            @found_at = Clock.now
          end
          @findings
        end
      end
    end
  end
end
